"""Labels in what a client sends of its last layer, where its loss is one that shows them.

Of cross-entropy and its kin the derivative at an output is negative at the true class and nowhere else. A sum over a
batch is then negative only where some sample has the class. Whether the client's loss is of that kind is tried on the
model's own outputs for noise, not assumed: of a regression nothing is said.

Source: "iDLG: Improved Deep Leakage from Gradients", eqs. (4)-(6); the counts: ``attacks/labels/head.py``.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from leaklab.attacks.labels.head import counted_at_any_scale, counted_labels, reading
from leaklab.probing.algebra.applications import Application, watched
from leaklab.probing.algebra.rehearsal import FAILURES, Rehearsal
from leaklab.probing.algebra.rounding import EDGE, floor
from leaklab.probing.case import Case
from leaklab.probing.client import Loss
from leaklab.records.streams import Stream, stream

JITTER = 3.0
"""How far outputs are moved from those for noise, in their own spread, when a loss is tried."""
TRIES = 2
MOST_CLASSES = 1000
NEAR = 0.2
"""How far from 1 the factor on the update may be where its true scale is believed."""


@dataclass(frozen=True)
class OutputLabels:
    """What the last layer says of the labels.

    Attributes:
        by: the tensor that they are read from.
        present: classes that some sample surely has.
        counts: how often each class occurs, by the best fit for the batch's size; None where that is not known, or
            where a sample has several classes.
    """

    by: str
    present: tuple[int, ...]
    counts: dict[int, int] | None = None


@dataclass(frozen=True, eq=False)
class _Told:
    """Derivatives at an output by what the loss does: [K] each, means over samples."""

    own: Tensor  # at the true class
    other: Tensor  # at any other
    single: bool  # one class for each sample


def output_labels(case: Case, rehearsal: Rehearsal, samples: int | None) -> OutputLabels | None:
    """Return the labels that the last layer shows; None where the loss shows none, or the layer is not sent.

    Args:
        case: the exchange.
        rehearsal: of its client.
        samples: size of the batch; None where it is not known.
    """
    told = _told(case, rehearsal)
    if told is None or case.client.steps != rehearsal.client.steps:
        return None
    found = _sums(case, rehearsal, len(told.own))
    if found is None:
        return None
    name, sums, error = found
    present = tuple(int(one) for one in (sums < -EDGE * error).nonzero().flatten())
    counts = None
    if name.bias and samples and told.single and case.client.steps == 1:
        counts = _counted(sums / name.gain, told, samples)
    return OutputLabels(name.tensor, present, counts)


def _counted(sums: Tensor, told: _Told, samples: int) -> dict[int, int]:
    """Return how often each class occurs among ``samples``, from the bias's gradient [K] at its nominal scale."""
    step = told.other - told.own
    shares, scaled = told.other / step, sums / step
    labels = counted_labels(scaled[None], shares, samples)[0]
    best = reading(labels, scaled, shares)
    if not abs(best.scale - 1) < NEAR:
        best = counted_at_any_scale(scaled, shares, samples)[0]
    numbers = torch.bincount(best.labels).tolist()
    return {one: number for one, number in enumerate(numbers) if number}


@dataclass(frozen=True)
class _Source:
    tensor: str
    bias: bool
    gain: float


def _sums(case: Case, rehearsal: Rehearsal, classes: int) -> tuple[_Source, Tensor, float] | None:
    """Return where sums of derivatives of one sign are sent, those [K], and the rms error of their rounding."""
    model = rehearsal.model()
    client = rehearsal.client

    def run(network: torch.nn.Module) -> tuple[Tensor, Tensor]:
        output = client.output(network, rehearsal.inputs)
        return output, client.loss(output, rehearsal.targets)

    seen, (output, value) = watched(run, model, seed=client.seed)
    derivatives = torch.autograd.grad(value, output)[0].detach()
    for name, factor in rehearsal.factors.items():
        own = rehearsal.gradients[name]
        if own.shape == (classes,) and _near(own, derivatives.sum(0), rehearsal.tolerance) and _sent(case, name):
            sums = rehearsal.plain(case.exchange, name).cpu()
            return _Source(name, True, factor.gain), sums, floor(case, name)
    head = next((one for one in reversed(seen) if one.kind == "product" and one.output.shape == output.shape), None)
    if head is None or head.name not in rehearsal.factors or not _sent(case, head.name) or head.given.min() < 0:
        return None
    if not _is_sum(head, rehearsal, derivatives):
        return None
    factor = rehearsal.factors[head.name]
    rows = head.upright(rehearsal.plain(case.exchange, head.name)).sum(1).cpu()
    return _Source(head.name, False, factor.gain), rows, floor(case, head.name) * head.given.shape[-1] ** 0.5


def _is_sum(head: Application, rehearsal: Rehearsal, derivatives: Tensor) -> bool:
    """Return whether the head's gradient is the sum over samples of derivative times features, and nothing else."""
    product = derivatives.mT @ head.given.detach().reshape(len(derivatives), -1)
    return _near(head.upright(rehearsal.gradients[head.name]), product, rehearsal.tolerance)


def _sent(case: Case, name: str) -> bool:
    return name in case.exchange.sent


def _near(first: Tensor, second: Tensor, tolerance: float) -> bool:
    return float((first - second).norm()) <= tolerance * float(second.norm())


def _told(case: Case, rehearsal: Rehearsal) -> _Told | None:
    """Return the derivatives at an output, if the loss is negative at the true class and only there."""
    client, targets = rehearsal.client, rehearsal.targets
    try:
        with torch.no_grad():
            output = client.output(rehearsal.model(), rehearsal.inputs)
        if not isinstance(output, Tensor) or output.dim() != 2 or not 1 < output.shape[1] <= MOST_CLASSES:
            return None
        classes = output.shape[1]
        if targets.dim() == 1 and not targets.is_floating_point():
            hot = torch.eye(classes, device=output.device, dtype=torch.bool)
            wanted = torch.arange(classes, device=output.device).to(targets)
        elif targets.shape == output.shape and bool(((targets == 0) | (targets == 1)).all()):
            hot = torch.eye(classes, device=output.device, dtype=torch.bool)
            wanted = hot.to(targets)
        else:
            return None
        tried = _outputs(output, stream(case.seed, "output labels"))
        found = torch.stack([_derivatives(client.loss, one.expand(classes, -1), wanted) for one in tried]) * classes
    except FAILURES:
        return None
    scale = found.abs().amax((1, 2), keepdim=True) * rehearsal.tolerance
    if not bool(((found < -scale) == hot).all()):
        return None
    mean = found[: len(output)].mean(0)
    single = targets.dim() == 1 or bool((targets.sum(1) == 1).all())
    others = (mean.sum(0) - mean.diagonal()) / (classes - 1)
    return _Told(mean.diagonal().cpu().double(), others.cpu().double(), single)


def _outputs(output: Tensor, draws: Stream) -> Tensor:
    """Return the outputs for noise [B, K] and some beside them, moved by several times their spread."""
    spread = output.std(0).mean() if len(output) > 1 else output.std()
    moved = [output + JITTER * spread * draws.normal(*output.shape).to(output) for _ in range(TRIES)]
    return torch.cat([output, *moved])


def _derivatives(loss: Loss, output: Tensor, targets: Tensor) -> Tensor:
    point = output.clone().requires_grad_()
    value = loss(point, targets)
    found: Tensor = torch.autograd.grad(value, point)[0]
    return found
