"""A residual network in evaluation state, peeled from its head: what layers saw, proven, and the picture behind.

Of one sample of one step; see ``attacks/residual``. Each map is certified by what its layer's gradient leaves, without
a truth. The picture behind the last of them is a search, which needs no matching of gradients, and is proven only as
other samples that are read are: if the whole update closes on it (``algebra/closing.py``).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd

from leaklab.attacks.pooling.picture import GaussianPrior
from leaklab.attacks.residual.closing import MOST_NUMBERS, Closing
from leaklab.attacks.residual.peeling import Peeled, peeled
from leaklab.attacks.residual.picture import Frontier, behind
from leaklab.attacks.residual.structure import Structure
from leaklab.probing.algebra import closing as whole
from leaklab.probing.algebra.readers import error_of, update
from leaklab.probing.algebra.rehearsal import FAILURES, Rehearsal, in_mode, rehearse
from leaklab.probing.case import Case
from leaklab.probing.owned import with_state
from leaklab.probing.reading import Reading
from leaklab.probing.searches.beliefs import Beliefs
from leaklab.probing.searches.matching import Deadline
from leaklab.probing.searches.scene import Scene
from leaklab.records.errors import UserError

NAME = "residual-peel"
NEARLY = 0.1
"""Largest misfit of a layer's gradient from which on the whole update is asked whether it closes."""
CELLWISE = 1e-5
"""Relative error up to which what prepares a sample counts as one factor and offset of each number."""


@dataclass(frozen=True, eq=False)
class Found:
    """What was peeled.

    Attributes:
        readings: of what layers saw, each proven, and of the sample last.
        words: what the former come to, a sentence.
        picture: the sample, [1, ...]; None where it was not sought.
        evaluations: of the gradient.
        complete: whether it was not cut by time.
    """

    readings: tuple[Reading, ...]
    words: str
    picture: Tensor | None
    evaluations: int
    complete: bool


def fits(case: Case) -> bool:
    """Tell whether a case may be one for this search, before anything is computed."""
    client = case.client
    model = in_mode(client)
    drawn = any(one.training for one in model.modules() if isinstance(one, _NormBase | _DropoutNd))
    plain = client.steps == client.accumulate == 1 and client.call is None and client.precision is None
    return plain and case.told() == 1 and not drawn and any(isinstance(one, nn.Conv2d) for one in model.modules())


def residual_peel(case: Case, scene: Scene, deadline: Deadline) -> Found | str | None:
    """Return what is peeled of the one sample of a case, or why nothing is; None of a network of another form.

    Args:
        case: that ``fits``.
        scene: of its searches, for what is believed of the sample and its class.
        deadline: what was found by then stands.
    """

    def over() -> bool:
        return deadline.left <= 0

    structure = _structure(case, scene.beliefs[0])
    if structure is None:
        return None
    try:
        rehearsal = rehearse(case)
        if over():
            return "the time was over before the client was rehearsed"
        gradients = {name: update(case, rehearsal, name) for name in rehearsal.factors if name in case.exchange.sent}
        noise = {name: error_of(case, rehearsal, name) for name in gradients}
        read = peeled(structure, gradients, noise, over)
    except UserError as refusal:
        return str(refusal)
    if not read.maps:
        return read.why
    readings = tuple(_of_layers(read))
    words = _words(read, readings)
    prior = _prior(case, scene.beliefs[0], scene.targets.classes)
    if isinstance(prior, str) or over():
        why = prior if isinstance(prior, str) else "the time was over"
        return Found(readings, f"{words} The sample behind was not sought: {why}.", None, 0, complete=not over())
    frontier = Frontier(read)
    closing = Closing(frontier, prior.gaussian, gradients, noise)
    closed = closing.closed(behind(frontier, prior.gaussian, over=over), over)
    sample = prior.back(closed.picture).to(scene.sent.tensors[0])
    own = sample.to(rehearsal.dtype)
    proven = closed.worst < NEARLY and not over() and _is_proven(case, rehearsal, own)
    readings = (*readings, Reading(NAME, "input", sample[0], proven))
    return Found(readings, words, sample, closing.evaluations, complete=not over())


def _structure(case: Case, beliefs: Beliefs) -> Structure | None:
    """Return the structure of a client's network; None where it has another form."""
    try:
        blank = _prepared(case, beliefs.samples(beliefs.means[:1]).double())
        return Structure(with_state(case.client.model, case.exchange.before), tuple(blank.shape[1:]), "it")
    except FAILURES:
        return None


def _is_proven(case: Case, rehearsal: Rehearsal, sample: Tensor) -> bool:
    return whole.closes(whole.Closing(case, rehearsal), sample, whole.beside(sample, case.seed)) is None


def _of_layers(read: Peeled) -> list[Reading]:
    """Return what convolutions saw, where that is proven; the head's input is read without a search."""
    return [
        Reading(NAME, layer, one.values, True, one.residual)
        for one in read.maps.values()
        if one.proven
        for layer in one.layers
        if layer != read.structure.head
    ]


def _words(read: Peeled, readings: tuple[Reading, ...]) -> str:
    further = f" It went no further, as {read.why}." if read.why else ""
    if not readings:
        return f"Of what layers saw nothing is proven by '{NAME}' but the head's input.{further}"
    number = "1 layer" if len(readings) == 1 else f"{len(readings)} layers"
    return f"What {number} saw is proven by '{NAME}', from {readings[0].of} down to {readings[-1].of}.{further}"


@dataclass(frozen=True, eq=False)
class _Prior:
    """What is believed of a sample as the network takes it, and the way back to the sample."""

    gaussian: GaussianPrior
    back: Callable[[Tensor], Tensor]


def _prepared(case: Case, samples: Tensor) -> Tensor:
    prepare = case.client.prepare
    return samples if prepare is None else prepare(samples)


def _prior(case: Case, beliefs: Beliefs, classes: Tensor | None) -> _Prior | str:
    """Return what is believed of a picture as the network takes it; or why that cannot be said."""
    if not beliefs.picture or not beliefs.boxed:
        return "it is no picture"
    if beliefs.size > MOST_NUMBERS:
        return f"it has {beliefs.size} numbers, and {MOST_NUMBERS} may be"
    ends = [beliefs.samples(torch.full_like(beliefs.means[:1], end)).double() for end in (0.0, 1.0)]
    ramp = torch.linspace(0, 1, beliefs.size).to(ends[0]).view_as(ends[0])
    try:
        low, high = (_prepared(case, one) for one in ends)
        middle = _prepared(case, ends[0] + ramp * (ends[1] - ends[0]))
    except FAILURES as failed:
        return f"what prepares it takes no float64: {str(failed).splitlines()[0]}"
    scale = high - low
    cellwise = low.shape == ends[0].shape and bool((scale != 0).all())
    if not cellwise or float((middle - low - ramp * scale).abs().max()) > CELLWISE * float(scale.abs().max()):
        return "what prepares it does more than to scale and shift each number"
    unit, flat = torch.eye(beliefs.size).to(beliefs.means), scale.flatten()
    mean = low.flatten() + flat * beliefs.mean(classes)[0].double()
    factor = flat[:, None] * beliefs.coloured(unit).double().T
    bounds = torch.minimum(low, high).flatten(), torch.maximum(low, high).flatten()
    gaussian = GaussianPrior(mean, factor.contiguous(), *bounds)
    return _Prior(gaussian, lambda picture: ends[0] + (picture - low) / scale * (ends[1] - ends[0]))
