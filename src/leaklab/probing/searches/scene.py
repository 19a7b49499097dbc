"""What the searches of a case work with: what was sent, what is believed of samples, and what of targets."""

from dataclasses import dataclass

import torch
from torch import Tensor

from leaklab.probing.case import Case
from leaklab.probing.measure import measure_of
from leaklab.probing.searches import labels as by_label
from leaklab.probing.searches.beliefs import Beliefs, of_nothing, of_public
from leaklab.probing.searches.matching import Posterior, Sent
from leaklab.probing.searches.simulation import Simulation
from leaklab.probing.searches.targets import Choices, Targets, choices_of
from leaklab.records.errors import UserError


@dataclass(frozen=True)
class Scene:
    """What the searches of a case work with.

    Attributes:
        sent: what is matched.
        beliefs: of samples; the last ones know no public samples.
        targets: what outputs are compared with.
    """

    sent: Sent
    beliefs: list[Beliefs]
    targets: Targets

    def posterior(self, beliefs: Beliefs) -> Posterior:
        """Return what a search minimises that believes this."""
        return Posterior(self.sent, beliefs, self.targets)


def scene_of(
    case: Case,
    seed: int,
    labels: Tensor | None,
    samples: int | None,
    span: tuple[float, float] | None,
    dtype: torch.dtype | None,
) -> Scene:
    """Return the scene of a case, after the round was simulated and differentiated once.

    Args:
        case: see ``searches``, as for the next three.
        seed: of the choice among public samples.
        labels: targets.
        samples: N.
        span: of a sample.
        dtype: of the simulation; None for its own.

    Raises:
        UserError: see ``searches``.
        RuntimeError: model or loss do not take the type, or cannot be differentiated twice.
    """
    shape, number = _form(case, samples)
    simulation = Simulation(case.client, case.exchange, dtype=dtype)
    sent = Sent.of(simulation, case.exchange)
    scale, boxed = scale_of(case, shape, span, sent.tensors[0])
    blank = of_nothing(shape, scale, boxed=boxed)
    choices = choices_of(case, simulation.output(blank.samples(blank.mean())), simulation.dtype)
    beliefs = _beliefs(case, choices, scale, shape, seed, boxed=boxed)
    if labels is not None:
        targets = by_label.granted(labels.to(simulation.device), choices, simulation.dtype)
    else:
        targets = by_label.sought(simulation, case.exchange, sent, beliefs[0], choices, number)
    found = Scene(sent, beliefs, targets)
    first = found.posterior(beliefs[0])
    first(sent.tensors[0].new_zeros(1, first.unknowns), torch.zeros(1, dtype=torch.int64))
    return found


def _form(case: Case, samples: int | None) -> tuple[tuple[int, ...], int]:
    """Return the shape of a sample and how many there are.

    Raises:
        UserError: nobody knows, or samples are no real numbers.
    """
    like = case.inputs if case.inputs is not None else None if case.public is None else case.public[0]
    if like is None:
        raise UserError("nothing is known of the samples' shape: give public samples")
    if not like.is_floating_point():
        raise UserError("samples are integers, and searches move real numbers: only proofs can read these")
    number = samples if samples is not None else None if case.inputs is None else len(case.inputs)
    if not number:
        raise UserError("nothing is known of the number of samples: give samples")
    return tuple(like.shape[1:]), number


def scale_of(
    case: Case, shape: tuple[int, ...], span: tuple[float, float] | None, like: Tensor
) -> tuple[tuple[Tensor, Tensor], bool]:
    """Return where the own scale of samples has 0 and 1, and whether they lie between.

    Args:
        case: whose public samples tell it.
        shape: of a sample.
        span: see ``searches``.
        like: of the type and device that is wanted.
    """
    if span is None and case.public is None:
        return (like.new_zeros(()), like.new_ones(())), len(shape) == 3
    if span is None:
        assert case.public is not None
        measure = measure_of(case.public[0])
        if measure.kind == "values":
            own = case.public[0].to(like)
            deviations = own.std(0)
            middle, deviations = own.mean(0), deviations.clamp(min=1e-3 * max(float(deviations.max()), 1e-6))
            return (middle, middle + deviations), False
        span = measure.low, measure.high
    return (like.new_tensor(span[0]), like.new_tensor(span[1])), True


def _beliefs(
    case: Case, choices: Choices, scale: tuple[Tensor, Tensor], shape: tuple[int, ...], seed: int, *, boxed: bool
) -> list[Beliefs]:
    """Return what is believed by the searches, the one who knows most first."""
    nothing = of_nothing(shape, scale, boxed=boxed)
    if case.public is None or len(case.public[0]) < 2:
        return [nothing]
    public = case.public[0].to(scale[0])
    if choices.values is None:
        return [of_public(public, torch.zeros(len(public), dtype=torch.int64), 1, scale, seed, boxed=boxed), nothing]
    return [of_public(public, choices.public, len(choices.values), scale, seed, boxed=boxed), nothing]
