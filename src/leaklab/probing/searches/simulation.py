"""A client's round as a differentiable function of its samples: what an attacker compares with what was sent.

The house's attackers know networks by their builders and have formulas for their layers. Here the network is whatever
its owner wrote, so it is called as it is, with its weights from outside (``torch.func.functional_call``), and its
gradients are differentiated once more by automatic differentiation. That is slower and takes any module.

Plain gradient descent (``torch.optim.SGD`` with all its settings) is simulated step by step. Other optimizers, Adam
and its kin, divide each entry of a first gradient by its size: of their single step the signs are compared, softened
so that they have a slope, up to a factor. Nobody but the client knows what dropout drew, so there is none here; mixed
precision is left out as well.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd

from leaklab.probing.client import Client
from leaklab.probing.exchange import Exchange
from leaklab.records.errors import UserError

T = TypeVar("T")
SOFT = 0.1
"""Entries of a gradient that a sign is softened for, relative to the root mean square of their tensor."""
LARGEST_IN_DOUBLE = 2_000_000
"""Numbers in a network that is searched in float64; larger ones are in float32, which is twice as fast and coarser."""


@dataclass(frozen=True)
class _Step:
    """What the optimizer does with the gradient of one parameter in one step; as ``torch.optim.SGD`` names it."""

    lr: float
    weight_decay: float = 0.0
    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False
    maximize: bool = False


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

    Attributes:
        dtype: in which everything is computed; samples are to be given in it.
        device: that of the weights.
        names: of the parameters that are compared: those that were sent.
        scale_free: whether what is sent is known up to a factor only.

    Raises:
        UserError: no trained parameter was sent, or the weights do not fit the model.
    """

    def __init__(
        self, client: Client, exchange: Exchange, *, still: bool = False, dtype: torch.dtype | None = None
    ) -> None:
        self.client = client
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
        self._steps = _steps(client, list(trained.values()))
        self._signed = self._steps is None and client.sends != "gradient"
        self.scale_free = self._signed or client.defense is not None
        if self._signed and client.steps > 1:
            raise UserError(
                f"{client.steps} steps of an optimizer other than torch.optim.SGD are not simulated: probe one step"
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

    def loss(self, inputs: Tensor, targets: Tensor, moved: Sequence[Tensor] | None = None) -> Tensor:
        """Return the loss of one batch at the weights before the round, less what is ``moved`` (as ``names``)."""
        away = {} if moved is None else dict(zip(self.names, moved, strict=True))
        weights = {name: value - away[name] if name in away else value for name, value in self._start.items()}
        with undisturbed(self.device), torch.no_grad():
            value: Tensor = functional_call(self._loss, self._given(weights), (inputs, targets))
        return value

    def __call__(self, inputs: Tensor, targets: Tensor) -> list[Tensor]:
        """Return what the client would send of [N, ...] as directions of descent, in the order of ``names``."""
        now, moved = dict(self._start), {}
        buffers: dict[str, Tensor] = {}
        batches = self.client.batches(inputs, targets)
        for number in range(self.client.steps):
            gradients = self._step(now, batches)
            if self.client.sends == "gradient" or self._steps is None:
                moved = {name: _soft_sign(one) for name, one in gradients.items()} if self._signed else gradients
                break
            for name, own in zip(now, self._steps[number], strict=True):
                now[name] = now[name] - own.lr * _change(own, gradients[name], now[name], buffers, name)
            moved = {name: self._start[name] - now[name] for name in self.names}
        return [moved[name] for name in self.names]

    def _step(self, now: Mapping[str, Tensor], batches: Iterator[tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
        """Return the gradient of one step, of as many batches as are accumulated, clipped as the client does."""
        total: list[Tensor] = []
        for _ in range(self.client.accumulate):
            own = [one / self.client.accumulate for one in self._gradients(now, *next(batches))]
            total = [a + b for a, b in zip(total, own, strict=True)] if total else own
        if self.client.clip is not None:
            norm = torch.stack([one.square().sum() for one in total]).sum().sqrt()
            factor = (self.client.clip / (norm + 1e-6)).clamp(max=1.0)
            total = [factor * one for one in total]
        return dict(zip(now, total, strict=True))

    def _gradients(self, now: Mapping[str, Tensor], inputs: Tensor, targets: Tensor) -> Sequence[Tensor]:
        with twice_differentiable(), undisturbed(self.device), torch.enable_grad():
            value = functional_call(self._loss, self._given(now), (inputs, targets))
            return torch.autograd.grad(
                value, list(now.values()), create_graph=True, allow_unused=True, materialize_grads=True
            )

    def _given(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return weights and buffers by their names in the loss."""
        # running statistics are overwritten in training state, which must not reach what was computed before
        buffers = {name: value.clone() for name, value in self._buffers.items()}
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


def _soft_sign(gradient: Tensor) -> Tensor:
    """Return the signs of a gradient, with a slope where it is small."""
    size = SOFT**2 * gradient.square().mean().clamp(min=torch.finfo(gradient.dtype).tiny)
    soft: Tensor = gradient / (gradient.square() + size).sqrt()
    return soft


def _steps(client: Client, trained: Sequence[nn.Parameter]) -> list[list[_Step]] | None:
    """Return what is done with each parameter in each step; None where the optimizer is none that is simulated."""
    copies = [nn.Parameter(value.detach().clone()) for value in trained]
    optimizer = torch.optim.SGD(copies, lr=client.rate) if client.optimizer is None else client.optimizer(copies)
    if type(optimizer) is not torch.optim.SGD:
        return None
    schedule = None if client.schedule is None else client.schedule(optimizer)
    found = []
    for _ in range(client.steps):
        settings = {
            id(value): _Step(**{name: group[name] for name in _Step.__dataclass_fields__})
            for group in optimizer.param_groups
            for value in group["params"]
        }
        found.append([settings.get(id(value), _Step(0.0)) for value in copies])
        optimizer.step()
        if schedule is not None:
            schedule.step()
    return found


def _change(own: _Step, gradient: Tensor, value: Tensor, buffers: dict[str, Tensor], name: str) -> Tensor:
    """Return what the learning rate multiplies; ``torch.optim.SGD`` written out."""
    gradient = -gradient if own.maximize else gradient
    if own.weight_decay:
        gradient = gradient + own.weight_decay * value
    if not own.momentum:
        return gradient
    known = buffers.get(name)
    kept = gradient if known is None else own.momentum * known + (1 - own.dampening) * gradient
    buffers[name] = kept
    return gradient + own.momentum * kept if own.nesterov else kept


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
