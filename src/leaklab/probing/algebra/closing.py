"""Closing: samples that were read are put through the whole network, and what comes of it is held against all tensors.

The gradient of one step is J(x)' e, with the Jacobian J of all outputs by all parameters and the derivatives e of the
loss at the outputs. For given samples it is linear in e, so e is solved for: neither labels nor loss, nor any factor
that a client hides is needed. There are far more equations than outputs. Wrong samples leave a rest, which is measured:
a reading is proven only if its own rest is rounding, and if readings beside it, at a distance that counts, leave more.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from leaklab.probing.algebra.applications import watched
from leaklab.probing.algebra.readers import error_of, update
from leaklab.probing.algebra.rehearsal import FAILURES, Rehearsal, flat
from leaklab.probing.case import Case
from leaklab.records import tensor_algebra
from leaklab.records.streams import stream

ENTRIES = 1500
"""Of each tensor that are compared, drawn at random."""
MOST_OUTPUTS = 1000
ROUNDING = {torch.float64: 1e-10, torch.float32: 4e-5}
"""Rest that counts as none, as a share of a tensor, by the type of what was sent."""
ERRORS = 4.0
"""The same, in standard errors of what was sent."""
ASIDE = 1e-3
"""How far readings beside a proven one are from it, as a share of its largest entry: 60 dB of what has that range."""
DERIVATIVE = {torch.float64: 1e-6, torch.float32: 1e-2}
"""Relative error of derivatives at the outputs, by the type of what was sent."""
CLEARLY = 3.0
"""How many times as much as counts as none a wrong reading has to leave."""


@dataclass(frozen=True, eq=False)
class Rest:
    """What samples leave of the update.

    Attributes:
        size: in units of what counts as none.
        derivatives: those at the outputs that fit best, e [M].
        known: whether there is only one such e.
    """

    size: float
    derivatives: Tensor
    known: bool


@dataclass(frozen=True, eq=False)
class Closing:
    """The update of one step, ready for samples to be tried.

    Attributes:
        case: the exchange.
        rehearsal: of its client.
        instead: number of the application whose rows are tried in place of samples; None for samples.
    """

    case: Case
    rehearsal: Rehearsal
    instead: int | None = None

    @cached_property
    def model(self) -> nn.Module:
        """Return the network as the client trains it."""
        return self.rehearsal.model()

    @cached_property
    def names(self) -> list[str]:
        """Return the tensors that are held against: sent as gradients but for one factor."""
        return [name for name in self.rehearsal.factors if name in self.case.exchange.sent]

    @cached_property
    def places(self) -> dict[str, Tensor]:
        """Return the entries of each tensor that are compared."""
        draws = stream(self.case.seed, "closing")
        found = {}
        for name in self.names:
            size = self.case.exchange.sent[name].numel()
            found[name] = draws.permutation(size)[:ENTRIES] if size > ENTRIES else torch.arange(size)
        return found

    def targets(self) -> dict[str, Tensor]:
        """Return what was sent, at those entries."""
        sent = {name: update(self.case, self.rehearsal, name).flatten() for name in self.names}
        return {name: one[self.places[name].to(one.device)] for name, one in sent.items()}

    @cached_property
    def units(self) -> dict[str, float]:
        """Return for each tensor the rms rest that counts as none."""
        found = {}
        for name, one in self.targets().items():
            size = float(one.square().mean().sqrt())
            found[name] = ERRORS * error_of(self.case, self.rehearsal, name) + ROUNDING[self._type(name)] * size
        largest = max(found.values(), default=0.0)
        return {name: max(unit, 1e-9 * largest, 1e-300) for name, unit in found.items()}

    @cached_property
    def kind(self) -> torch.dtype:
        """Return the type with the larger rounding among all that are held against."""
        return max((self._type(name) for name in self.names), key=lambda one: torch.finfo(one).eps)

    def _type(self, name: str) -> torch.dtype:
        kinds = (self.case.exchange.sent[name].dtype, self.rehearsal.dtype)
        return torch.float32 if torch.float32 in kinds else torch.float64

    def jacobian(self, samples: Tensor) -> tuple[dict[str, Tensor], int]:
        """Return by tensor the derivatives of all M outputs [M, entries], and M.

        Raises:
            RuntimeError: there are too many outputs.
        """
        named = dict(self.model.named_parameters())
        parameters = [named[name] for name in self.names]
        outputs = flat(self.output(samples))
        if len(outputs) > MOST_OUTPUTS:
            raise RuntimeError(f"{len(outputs)} outputs are too many to be solved for")
        parts: dict[str, list[Tensor]] = {name: [] for name in self.names}
        for unit in torch.eye(len(outputs), dtype=outputs.dtype, device=outputs.device):
            grads = torch.autograd.grad(outputs, parameters, unit, retain_graph=True, allow_unused=True)
            for name, grad in zip(self.names, grads, strict=True):
                if grad is not None:
                    parts[name].append(grad.flatten()[self.places[name].to(grad.device)].double())
        return {name: torch.stack(rows) for name, rows in parts.items() if rows}, len(outputs)

    def output(self, samples: Tensor) -> object:
        """Return the network's output for samples, or for rows of the application that takes them."""
        client = self.rehearsal.client
        if self.instead is None:
            own = samples.to(self.rehearsal.dtype)
            return client.output(self.model, own)
        blank = self.rehearsal.inputs[:1].expand(len(samples), *self.rehearsal.inputs.shape[1:])
        rows = {self.instead: samples.to(self.rehearsal.dtype)}
        return watched(lambda model: client.output(model, blank), self.model, instead=rows)[1]

    def rest(self, samples: Tensor, targets: Mapping[str, Tensor] | None = None) -> Rest:
        """Return what samples [N, ...] leave of the update, or of other targets."""
        jacobian, _ = self.jacobian(samples)
        return self._fitted(jacobian, targets or self.targets())

    def _fitted(self, jacobian: Mapping[str, Tensor], targets: Mapping[str, Tensor]) -> Rest:
        left = torch.cat([jacobian[name] / self.units[name] for name in jacobian], 1).mT
        right = torch.cat([targets[name] / self.units[name] for name in jacobian])
        scale = left.norm(dim=0).clamp(min=1e-300)
        u, sizes, vh = tensor_algebra.svd(left / scale)
        kept = sizes > 1e-13 * sizes[0]
        weights = vh[kept].mT @ ((u[:, kept].mT @ right) / sizes[kept]) / scale
        rest, start, worst = (right - left @ weights).abs(), 0, 0.0
        for one in jacobian.values():
            worst = max(worst, float(rest[start : start + one.shape[1]].square().mean().sqrt()))
            start += one.shape[1]
        return Rest(worst, weights, bool(kept.all()))


def closes(closing: Closing, samples: Tensor, others: Callable[[int], Tensor], tries: int = 2) -> str | None:
    """Return why samples [N, ...] are not proven by the whole update; None where they are.

    Args:
        closing: the update.
        samples: in the type of the rehearsal, or rows where ``closing`` takes those.
        others: wrong readings that have to be told from it, by number.
        tries: how many of them.
    """
    if closing.rehearsal.draws:
        return "the model draws numbers of its own, which nobody knows"
    if not closing.names:
        return "no tensor is sent as the gradient of one step"
    if not samples.isfinite().all():
        return "it is not finite"
    try:
        rest = closing.rest(samples)
        if not rest.size <= 1:
            return f"put through the network it leaves {rest.size:.0e} times what rounding does"
        if not _is_derivative(closing, samples, rest):
            return "the derivatives at the outputs that go with it are not those of the client's loss at any labels"
        for number in range(tries):
            aside = closing.rest(others(number)).size
            if not aside >= CLEARLY:
                return "put through the network, other samples near it leave no more of the update than it does"
    except RuntimeError as failed:
        return str(failed)
    return None


def _is_derivative(closing: Closing, samples: Tensor, rest: Rest) -> bool:
    """Return whether derivatives at the outputs are those of the loss at some labels, up to one factor.

    Asked only of losses of one class for each sample; whatever others may be, nothing is said against them.
    """
    client, targets = closing.rehearsal.client, closing.rehearsal.targets
    output = closing.output(samples)
    if targets.dim() != 1 or targets.is_floating_point() or not rest.known:
        return True
    if not isinstance(output, Tensor) or output.dim() != 2 or len(output) != len(samples):
        return True
    found = rest.derivatives.reshape(output.shape)
    point = output.detach().clone().requires_grad_()
    try:
        value = client.loss(point, found.argmin(1).to(targets))
        made = torch.autograd.grad(value, point)[0].double()
    except FAILURES:
        return True
    factor = (found * made).sum() / made.square().sum()
    return bool((found - factor * made).norm() <= DERIVATIVE[closing.kind] * found.norm()) and bool(factor > 0)


def beside(samples: Tensor, seed: int) -> Callable[[int], Tensor]:
    """Return readings beside samples [N, ...]: mixed with one another a little, or moved where there is one."""

    def other(number: int) -> Tensor:
        draws = stream(seed, "beside", number)
        size = ASIDE * samples.abs().max()
        moved = samples.clone()
        if len(samples) == 1 or number == 0:
            return moved * (1 + ASIDE) if number == 0 else moved + size * draws.normal(*samples.shape).to(samples)
        place = int(draws.integers(0, len(samples), 1)[0])
        neighbour = (place + 1) % len(samples)
        return torch.cat([moved[:place], (moved[place] + ASIDE * moved[neighbour])[None], moved[place + 1 :]])

    return other
