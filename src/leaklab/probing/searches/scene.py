"""What the searches of a case work with: what was sent, what is believed of samples, and what of targets."""

from dataclasses import dataclass

import torch
from torch import Tensor

from leaklab.probing.case import Case
from leaklab.probing.measure import measure_of
from leaklab.probing.searches import labels as by_label
from leaklab.probing.searches.beliefs import Beliefs, of_nothing, of_public
from leaklab.probing.searches.experiments import met
from leaklab.probing.searches.matching import Posterior, Sent
from leaklab.probing.searches.simulation import Simulation
from leaklab.probing.searches.targets import Choices, Targets, choices_of
from leaklab.records.errors import UserError
from leaklab.records.streams import stream


@dataclass(frozen=True)
class Scene:
    """What the searches of a case work with.

    Attributes:
        sent: what is matched.
        beliefs: of samples; the last ones know no public samples.
        targets: what outputs are compared with.
        unknown: why the client's defense is not simulated; empty where it is, or where there is none.
        noise: that is known besides, see ``Case``.
    """

    sent: Sent
    beliefs: list[Beliefs]
    targets: Targets
    unknown: str = ""
    noise: float = 0.0

    @property
    def known(self) -> str:
        """How a defense, or noise that a replay found, is simulated."""
        defended = self.sent.simulation.defended
        said = [] if defended is None else [defended.words]
        if self.noise:
            said.append(
                f"noise of deviation {self.noise:.2g} in each entry, of which the size is known and not the draw"
            )
        return "; ".join(said)

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
    seconds: float,
) -> Scene:
    """Return the scene of a case, after the round was simulated and differentiated once.

    Args:
        case: see ``searches``, as for the next three.
        seed: of the choice among public samples.
        labels: targets.
        samples: N.
        span: of a sample.
        dtype: of the simulation; None for its own.
        seconds: of all searches.

    Raises:
        UserError: see ``searches``.
        RuntimeError: model or loss do not take the type, or cannot be differentiated twice.
    """
    shape, number = _form(case, samples)
    simulation = Simulation(case.client, case.exchange, dtype=dtype)
    scale, boxed = scale_of(case, shape, span, simulation.observed(case.exchange)[0])
    blank = of_nothing(shape, scale, boxed=boxed)
    choices = choices_of(case, simulation.output(blank.samples(blank.mean())), simulation.dtype)
    beliefs = _beliefs(case, choices, scale, shape, seed, boxed=boxed)
    others = made_up(beliefs[0], choices, 2 * number, seed)
    simulation, unknown = _defended(case, simulation, others, seconds)
    missed = simulation.missed(*(one[:number] for one in others))
    sent = Sent.of(simulation, case.exchange, case.noise, missed)
    if labels is not None:
        targets = by_label.granted(labels.to(simulation.device), choices, simulation.dtype)
    else:
        targets = by_label.sought(simulation, case.exchange, sent, beliefs[0], choices, number)
    found = Scene(sent, beliefs, targets, unknown, case.noise)
    first = found.posterior(beliefs[0])
    first(sent.tensors[0].new_zeros(1, first.unknowns), torch.zeros(1, dtype=torch.int64))
    return found


def _defended(
    case: Case, simulation: Simulation, samples: tuple[Tensor, Tensor], seconds: float
) -> tuple[Simulation, str]:
    """Return the simulation with the client's defense, or as it is and why it is not simulated."""
    if case.client.defense is None:
        return simulation, ""
    try:
        known = met(simulation, case.exchange, samples, seconds)
    except UserError as refusal:
        return simulation, str(refusal)
    return Simulation(case.client, case.exchange, dtype=simulation.dtype, defended=known), ""


def made_up(beliefs: Beliefs, choices: Choices, number: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return samples [N, ...] as they are believed to be, and targets [N, ...], for experiments."""
    draws = stream(seed, "made-up samples")
    low = beliefs.low
    if choices.values is None:
        assert choices.middle is not None
        assert choices.spread is not None
        deviations = draws.normal(number, *choices.middle.shape).to(choices.middle)
        targets, classes = choices.middle + choices.spread * deviations, None
    else:
        classes = draws.integers(0, len(choices.values), number)
        targets = choices.values[classes]
    own = beliefs.own(draws.normal(number, beliefs.size).to(low), classes)
    return beliefs.samples(own.clamp(0, 1) if beliefs.boxed else own), targets.to(low.device)


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
