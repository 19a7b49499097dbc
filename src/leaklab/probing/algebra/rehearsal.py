"""A client rehearsed: its own round on noise in place of samples, which shows what its updates are made of.

What a proof takes for granted is tried here first: whether a tensor that is sent is the gradient but for a factor,
whether the model draws anything itself, which parameters see what. Nothing private is used: only shape, type and range
of a sample and a target.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from leaklab.attacks.least_squares import least_squares
from leaklab.probing.case import Case
from leaklab.probing.client import Client
from leaklab.probing.exchange import Exchange
from leaklab.probing.owned import drawing, with_state
from leaklab.records.errors import UserError
from leaklab.records.streams import Stream, stream

SAMPLES = 3
"""Of a rehearsal: more than one, for layers that need a batch."""
MOST_STEPS = 3
EXACT = {torch.float64: 1e-7, torch.float32: 2e-3}
"""Relative error up to which two ways to the same number agree, by the type that they are computed in."""
FAILURES = (RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError, NotImplementedError, UserError)
"""What somebody else's network may answer to an input that it was not written for."""


@dataclass(frozen=True)
class Factor:
    """How a tensor is sent in one step: ``gain * gradient + decay * weights``."""

    gain: float
    decay: float


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """A client's round on noise.

    Attributes:
        client: the client with the weights of the exchange, in float64 where it runs in that.
        inputs: noise of the samples' shape, type and range, [3, ...].
        targets: made-up targets, [3, ...].
        sent: what it sent of them.
        gradients: of the loss on them in one step, by name.
    """

    client: Client
    inputs: Tensor
    targets: Tensor
    sent: Exchange
    gradients: Mapping[str, Tensor]

    @property
    def dtype(self) -> torch.dtype:
        """Return the type that it was computed in."""
        return next(self.client.model.parameters()).dtype

    @property
    def tolerance(self) -> float:
        """Return the relative error that counts as none."""
        return EXACT[self.dtype]

    @cached_property
    def factors(self) -> dict[str, Factor]:
        """Return the tensors that are sent as the gradient of one step, up to two numbers for each."""
        found: dict[str, Factor] = {}
        held = {name: one for name, one in self.gradients.items() if name in self.sent.sent and one.any()}
        # the largest first: a few numbers do not tell two factors, but go with those of others
        for name in sorted(held, key=lambda one: -held[one].numel()):
            sent, weights = self.sent.direction(name).flatten(), self.sent.before[name].double().flatten()
            gradient = held[name].double().flatten()
            for one in (_plain(sent, gradient), _with_decay(sent, gradient, weights), *dict.fromkeys(found.values())):
                rest = sent - one.gain * gradient - one.decay * weights
                if one.gain > 0 and float(rest.norm()) <= self.tolerance * float(sent.norm()):
                    found[name] = one
                    break
        return {name: found[name] for name in held if name in found}

    def plain(self, exchange: Exchange, name: str) -> Tensor:
        """Return what an exchange sent of a parameter, as ``Exchange.direction``, without decay of its weights."""
        sent, factor = exchange.direction(name), self.factors.get(name)
        return sent if factor is None or not factor.decay else sent - factor.decay * exchange.before[name].double()

    @cached_property
    def draws(self) -> bool:
        """Return whether the model's output depends on draws of its own, e.g. dropout."""
        model = self.model()
        first, second = (flat(self._seeded(model, seed)) for seed in (1, 2))
        return not torch.equal(first, second)

    def _seeded(self, model: nn.Module, seed: int) -> Any:
        with drawing(seed), torch.no_grad():
            return self.client.output(model, self.inputs)

    def model(self) -> nn.Module:
        """Return a copy of the network in the state in which the client trains it."""
        return in_mode(self.client)

    def noise(self, count: int, draws: Stream) -> Tensor:
        """Return other noise like the inputs, [count, ...]."""
        return noise_like(self.inputs, count, draws)


FEWEST = 8
"""Numbers of a tensor from which two factors are told from it."""


def _plain(sent: Tensor, gradient: Tensor) -> Factor:
    """Return the factor of what is sent on a gradient, both [n], without decay."""
    return Factor(float(sent @ gradient / gradient.square().sum()), 0.0)


def _with_decay(sent: Tensor, gradient: Tensor, weights: Tensor) -> Factor:
    """Return both factors of what is sent, [n], by least squares; none where too few numbers tell them."""
    ways = torch.stack([gradient, weights], 1)
    unit = ways.norm(dim=0).clamp(min=1e-300)
    if len(sent) < FEWEST:
        return Factor(0.0, 0.0)
    gain, decay = (least_squares(ways / unit, sent[:, None])[:, 0] / unit).tolist()
    return Factor(gain, decay)


def in_mode(client: Client) -> nn.Module:
    """Return a copy of a client's network in the state in which it trains."""
    model = deepcopy(client.model)
    return model if client.mode is None else model.train(client.mode == "train")


def flat(output: Any) -> Tensor:
    """Return all numbers of an output, whatever it holds them in, [M].

    Raises:
        UserError: there are none.
    """
    found: list[Tensor] = []

    def collect(value: Any) -> None:
        if isinstance(value, Tensor):
            if value.is_floating_point():
                found.append(value.flatten())
        elif isinstance(value, Mapping):
            for one in value.values():
                collect(one)
        elif isinstance(value, tuple | list):
            for one in value:
                collect(one)

    collect(output)
    if not found:
        raise UserError("the model returns no tensors of numbers: give the client a call that does")
    return torch.cat(found)


def rehearse(case: Case) -> Rehearsal:
    """Let the client of a case train on noise.

    Raises:
        UserError: nobody holds a sample that tells what noise should look like, or the client cannot train on it.
    """
    held = (case.inputs, case.targets) if case.inputs is not None else case.public
    if held is None or held[0] is None or held[1] is None:
        raise UserError("no sample tells what the model takes: give inputs and targets, or public ones")
    draws = stream(case.seed, "rehearsal")
    inputs, targets = noise_like(held[0], SAMPLES, draws), targets_like(held[1], SAMPLES, draws)
    client = replace(
        case.client, batch_size=None, steps=min(case.client.steps, MOST_STEPS), precision=None, seed=case.seed + 1
    )
    last: Exception | None = None
    for dtype in (torch.float64, torch.float32):
        try:
            ready = replace(client, model=_with_weights(client.model, case.exchange, dtype))
            own, wanted = (_in_type(values, dtype) for values in (inputs, targets))
            return Rehearsal(ready, own, wanted, ready.round(own, wanted), gradients_of(ready, own, wanted))
        except FAILURES as failed:  # a loss or layer that holds float32 numbers of its own
            last = last or failed
    raise UserError(f"the client does not train on noise: {last}") from last


def _with_weights(model: nn.Module, exchange: Exchange, dtype: torch.dtype) -> nn.Module:
    return with_state(model, exchange.before).to(dtype)


def _in_type(values: Tensor, dtype: torch.dtype) -> Tensor:
    return values.to(dtype) if values.is_floating_point() else values


def gradients_of(client: Client, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """Return the gradient of a client's loss on [B, ...] by name, with the draws of its round."""
    model = in_mode(client)
    named = {name: value for name, value in model.named_parameters() if value.requires_grad}
    with drawing(client.seed):
        value = client.value(model, inputs, targets)
    grads = torch.autograd.grad(value, list(named.values()), allow_unused=True)
    return {
        name: torch.zeros_like(own) if grad is None else grad
        for (name, own), grad in zip(named.items(), grads, strict=True)
    }


def noise_like(samples: Tensor, count: int, draws: Stream) -> Tensor:
    """Return noise of the shape, type and range of samples, [count, ...]: uniform; integers where they are."""
    shape = (count, *samples.shape[1:])
    if samples.is_floating_point():
        low, high = float(samples.min()), float(samples.max())
        return (low + max(high - low, 1e-3) * draws.uniform(*shape)).to(samples)
    return draws.integers(int(samples.min()), int(samples.max()) + 1, *shape).to(samples)


def targets_like(targets: Tensor, count: int, draws: Stream) -> Tensor:
    """Return made-up targets [count, ...]: of integers, of yes or no, of one class of K the same kind, else normal."""
    shape = (count, *targets.shape[1:])
    if not targets.is_floating_point():
        return draws.integers(int(targets.min()), int(targets.max()) + 1, *shape).to(targets)
    if bool(((targets == 0) | (targets == 1)).all()):
        if targets.dim() == 2 and bool((targets.sum(1) == 1).all()):
            return torch.eye(shape[1])[draws.integers(0, shape[1], count)].to(targets)
        return draws.integers(0, 2, *shape).to(targets)
    spread = float(targets.std()) if targets.numel() > 1 else 1.0
    return (float(targets.mean()) + max(spread, 1e-3) * draws.normal(*shape)).to(targets)
