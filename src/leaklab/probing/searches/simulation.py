"""A client's round as a differentiable function of its samples: what an attacker compares with what was sent.

The house's attackers know networks by their builders and have formulas for their layers. Here the network is whatever
its owner wrote, so it is called as it is, with its weights from outside (``torch.func.functional_call``), and its
gradients are differentiated once more by automatic differentiation. That is slower and takes any module.

Gradient descent, Adam and its kin are simulated step by step (``optimizers``). Of the single step of an optimizer that
is not written out the signs are compared, up to a factor. Signs, and steps that are nearly signs, are softened so that
they have a slope. Nobody but the client knows what dropout drew, so there is none here; mixed precision is left out as
well.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd

from leaklab.probing.client import Client
from leaklab.probing.exchange import Exchange
from leaklab.probing.searches.defended import Defended, Sender
from leaklab.probing.searches.optimizers import RULES, SOFT, Memory, divides, soft_sign, steps_of
from leaklab.records.errors import UserError

T = TypeVar("T")
LARGEST_IN_DOUBLE = 2_000_000
"""Numbers in a network that is searched in float64; larger ones are in float32, which is twice as fast and coarser."""


class _Loss(nn.Module):
    """The client's loss as a module, so that weights can be given from outside."""

    def __init__(self, client: Client, model: nn.Module) -> None:
        super().__init__()
        self.client, self.model = client, model

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        return self.client.loss(self.client.output(self.model, inputs), targets)


class Simulation:
    """What a client would send of samples, differentiable in them.

    Args:
        client: as its owner describes it.
        exchange: whose weights before the round are used, and whose parameters are compared.
        still: normalise by the running statistics and not by those of a batch, where layers have any.
        dtype: in which to compute; None for float64 in small networks, else float32.
        defended: how the client's defense is simulated; None to leave it out, so that only a direction is known.

    Attributes:
        dtype: in which everything is computed; samples are to be given in it.
        device: that of the weights.
        names: of the parameters that are compared: those that were sent.
        scale_free: whether what is sent is known up to a factor only.

    Raises:
        UserError: no trained parameter was sent, or the weights do not fit the model.
    """

    def __init__(
        self,
        client: Client,
        exchange: Exchange,
        *,
        still: bool = False,
        dtype: torch.dtype | None = None,
        defended: Defended | None = None,
    ) -> None:
        self.client, self.defended = client, defended
        model = deepcopy(client.model)
        try:
            model.load_state_dict({**model.state_dict(), **exchange.before}, strict=True)
        except RuntimeError as error:
            raise UserError(f"the weights before the round do not fit the model: {error}") from error
        if client.mode is not None:
            model.train(client.mode == "train")
        numbers = sum(value.numel() for value in model.parameters())
        # the fused recurrences of float32 cannot be differentiated twice
        small = numbers <= LARGEST_IN_DOUBLE or any(isinstance(one, nn.RNNBase) for one in model.modules())
        self.dtype = dtype or (torch.float64 if small else torch.float32)
        self._loss = _Loss(client, _quiet(model, still=still).to(self.dtype))
        trained = {name: value for name, value in model.named_parameters() if value.requires_grad}
        self.names = tuple(name for name in trained if name in exchange.sent)
        if not self.names:
            raise UserError("nothing that was sent is a trained parameter of the model: a search has nothing to match")
        self._start = {name: value.detach().clone().requires_grad_() for name, value in trained.items()}
        self._buffers = {name: value.detach() for name, value in model.named_buffers()}
        self.device = next(iter(self._start.values())).device
        self._steps = steps_of(client, list(trained.values()))
        self._signed = self._steps is None and client.sends != "gradient"
        unknown = client.defense is not None if defended is None else defended.scale_free
        self.scale_free = self._signed or unknown
        if self._signed and client.steps > 1:
            raise UserError(
                f"{client.steps} steps of an optimizer other than {', '.join(one.__name__ for one in RULES)} are not "
                "simulated: probe one step"
            )

    def output(self, inputs: Tensor) -> Any:
        """Return the output of samples [B, ...] of the model in evaluation state."""
        with undisturbed(self.device), torch.no_grad():
            return self.client.output(deepcopy(self._loss.model).eval(), inputs)

    def observed(self, exchange: Exchange) -> list[Tensor]:
        """Return what was sent as directions of descent, in the order of ``names``."""
        return [exchange.direction(name).to(self.device, self.dtype) for name in self.names]

    def gradient(self, inputs: Tensor, targets: Tensor) -> list[Tensor]:
        """Return the gradient of one batch at the weights before the round, in the order of ``names``."""
        gradients = dict(zip(self._start, self._gradients(self._start, inputs, targets), strict=True))
        return [gradients[name] for name in self.names]

    def share(self, inputs: Tensor, targets: Tensor) -> list[Tensor]:
        """Return what one batch's gradient adds to what is sent; the same without a defense that is simulated."""
        if self.defended is None:
            return self.gradient(inputs, targets)
        gradients = dict(zip(self._start, self._gradients(self._start, inputs, targets), strict=True))
        return self.defended.of_part({name: one.detach() for name, one in gradients.items()}, self._buffers)

    def loss(self, inputs: Tensor, targets: Tensor, moved: Sequence[Tensor] | None = None) -> Tensor:
        """Return the loss of one batch at the weights before the round, less what is ``moved`` (as ``names``)."""
        away = {} if moved is None else dict(zip(self.names, moved, strict=True))
        weights = {name: value - away[name] if name in away else value for name, value in self._start.items()}
        with undisturbed(self.device), torch.no_grad():
            value: Tensor = functional_call(self._loss, self._given(weights), (inputs, targets))
        return value

    def __call__(self, inputs: Tensor, targets: Tensor, *, soft: float = SOFT) -> list[Tensor]:
        """Return what the client would send of [N, ...] as directions of descent, in the order of ``names``.

        Args:
            inputs: [N, ...].
            targets: [N, ...].
            soft: how much signs are softened, so that what is sent has a slope; 0 for just what is sent.
        """
        moved, state = self.moved(inputs, targets, soft=soft)
        if self.defended is not None:
            return self.defended(moved, state, soft)
        return [moved[name] for name in self.names]

    def moved(
        self, inputs: Tensor, targets: Tensor, *, soft: float = SOFT
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return how far a round moves every trained parameter, as directions of descent, and the buffers after it."""
        now, state = dict(self._start), dict(self._buffers)
        memories: dict[str, Memory] = {name: {} for name in now}
        batches = self.client.batches(inputs, targets)
        for number in range(self.client.steps):
            gradients = self._step(now, state, batches)
            if self.client.sends == "gradient":
                return gradients, state
            if self._steps is None:
                return {name: soft_sign(one, soft or SOFT) for name, one in gradients.items()}, state
            for name, (rule, settings) in zip(now, self._steps[number], strict=True):
                now[name] = rule(settings, gradients[name], now[name], memories[name], soft)
        return {name: self._start[name] - now[name] for name in now}, state

    @property
    def softens(self) -> bool:
        """Whether signs, or what is nearly signs, are sent, which are softened."""
        by_optimizer = self._signed or (self.client.sends != "gradient" and divides(self._steps))
        return by_optimizer or (self.defended is not None and bool(self.defended.signs))

    def drawn(self, name: str) -> float:
        """Return the deviation of what a defense draws in each entry of a tensor."""
        return 0.0 if self.defended is None else self.defended.drawn.get(name, 0.0)

    def missed(self, inputs: Tensor, targets: Tensor) -> dict[str, float]:
        """Return the root mean square of what softened steps miss of a round, by tensor; empty where none are."""
        if self.client.sends == "gradient" or not divides(self._steps):
            return {}
        hard, soft = (self.moved(inputs, targets, soft=soft)[0] for soft in (0.0, SOFT))
        return {name: float((hard[name] - soft[name]).detach().square().mean().sqrt()) for name in self.names}

    def sender(self, exchange: Exchange) -> Sender:
        """Return the client's defense as a function of what ``moved`` returns."""
        return Sender(self.client, exchange, self.names, self._start, self._loss.model.state_dict())

    def _step(
        self, now: Mapping[str, Tensor], state: dict[str, Tensor], batches: Iterator[tuple[Tensor, Tensor]]
    ) -> dict[str, Tensor]:
        """Return the gradient of one step, of as many batches as are accumulated, clipped as the client does."""
        total: list[Tensor] = []
        for _ in range(self.client.accumulate):
            own = [one / self.client.accumulate for one in self._gradients(now, *next(batches), state)]
            total = [a + b for a, b in zip(total, own, strict=True)] if total else own
        if self.client.clip is not None:
            norm = torch.stack([one.square().sum() for one in total]).sum().sqrt()
            factor = (self.client.clip / (norm + 1e-6)).clamp(max=1.0)
            total = [factor * one for one in total]
        return dict(zip(now, total, strict=True))

    def _gradients(
        self, now: Mapping[str, Tensor], inputs: Tensor, targets: Tensor, state: dict[str, Tensor] | None = None
    ) -> Sequence[Tensor]:
        """Return the gradient of a batch by each of the weights ``now``; buffers of ``state`` go on."""
        with twice_differentiable(), undisturbed(self.device), torch.enable_grad():
            given = self._given(now, state)
            value = functional_call(self._loss, given, (inputs, targets))
            if state is not None:
                state.update({name: given[f"model.{name}"] for name in state})
            return torch.autograd.grad(
                value, list(now.values()), create_graph=True, allow_unused=True, materialize_grads=True
            )

    def _given(self, weights: Mapping[str, Tensor], state: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
        """Return weights and buffers by their names in the loss."""
        # running statistics are overwritten in training state, which must not reach what was computed before
        buffers = {name: value.clone() for name, value in (self._buffers if state is None else state).items()}
        return {f"model.{name}": value for name, value in {**weights, **buffers}.items()}


@contextmanager
def twice_differentiable() -> Iterator[None]:
    """Compute attention and recurrences by kernels that can be differentiated twice."""
    with sdpa_kernel(SDPBackend.MATH), torch.backends.cudnn.flags(enabled=False):
        yield


@contextmanager
def undisturbed(device: torch.device) -> Iterator[None]:
    """Leave torch's own draws as they are, of which a model may take some."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        yield


def _quiet(model: nn.Module, *, still: bool) -> nn.Module:
    """Return a model without dropout; ``still`` also keeps its normalisations by a batch at what they learnt."""
    for module in model.modules():
        if isinstance(module, _DropoutNd) or (still and isinstance(module, _NormBase) and module.track_running_stats):
            module.eval()
        elif isinstance(module, (nn.RNNBase, nn.MultiheadAttention)):
            module.dropout = 0.0
    return model


def simulated(run: Callable[[torch.dtype | None], T]) -> T:
    """Return what is made of simulations in their own type, or in float32 where a model or a loss insists on it.

    Args:
        run: given the type of its simulations.

    Raises:
        UserError: it fails in both, e.g. because a layer cannot be differentiated twice.
    """
    try:
        return run(None)
    except RuntimeError as first:
        try:
            return run(torch.float32)
        except RuntimeError:
            raise UserError(f"the client's round cannot be simulated: {str(first).splitlines()[0]}") from first
