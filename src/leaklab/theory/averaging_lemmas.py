"""The proof of LRP's theorem 1, step by step: lemmas 1 and 3, eqs. (17), (18) and the induction, with known constants.

All expectations are exact (``quadratics``), so a ratio of left side to right above 1 is no accident of draws. Each step
is asked on many problems with unequal shares, where its two sides come as near as can be, and where one assumption is
given up, so that it must break. What the paper prints otherwise than its proof needs is asked as printed too.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from leaklab.records.bounds import Count
from leaklab.records.errors import UserError
from leaklab.records.traits import CheckTraits
from leaklab.theory.base import Clients, Number, Track
from leaklab.theory.convergence import SECOND_MOMENT, Constants, corrected, noise_terms, printed, tight
from leaklab.theory.convergence_bound import declared_steps
from leaklab.theory.progress import (
    LARGEST_RATE,
    ExactDescents,
    ceiling,
    drift_ratios,
    exact_descents,
    induction_ratios,
    iterated,
    progress_ratios,
    softmax_progress,
    step_ratios,
    worst_progress,
)
from leaklab.theory.quadratics import Plan, Quadratics, descend, made_up_quadratics
from leaklab.theory.shares import drawn_shares, needed, own, replaced

ASSUMED, VIOLATED, MISPRINT = "assumed", "violated", "misprint"
CONDITION, COORDINATES = 10.0, 3
# of the cases that have a closed form: clients, and opposed ones, which need many for the largest spread
FEW, OPPOSED = 10, 50
LOUD_SHARE = 0.91
# curvature of losses that are nearly linear, and the largest rate on them
NEARLY_LINEAR, SMALL_RATE = 1e-4, 0.1
EXPONENTIAL_SECOND_MOMENT = 2.0
ROUNDING = 1e-12


@dataclass(frozen=True)
class _Case:
    """A statement under some circumstances.

    Attributes:
        statement: which.
        kind: whether all is as assumed.
        name: of the circumstances.
        largest: ratio of left side to right.
        tighter: the same with squared rates in the mean, where that differs.
        course: the ratio of steps 1 to T, [T], where there are several.
    """

    statement: str
    kind: str
    name: str
    largest: float
    tighter: float | None = None
    course: Tensor | None = None

    def numbers(self) -> Iterator[Number]:
        row = {"statement": self.statement, "kind": self.kind, "case": self.name}
        yield Number("left_over_right", self.largest, row)
        if self.tighter is not None:
            yield Number("left_over_tighter", self.tighter, row)
        if self.course is not None:
            for step in declared_steps(len(self.course)).tolist():
                if float(self.course[step - 1]) > ROUNDING:  # where all clients are at one point nothing drifts
                    yield Number("ratio", float(self.course[step - 1]), {**row, "t": step})


@dataclass(frozen=True)
class AveragingLemmas:
    """Ask every step of the proof.

    Attributes:
        clients: N of the drawn problems.
        participants: K below N, for eq. (18).
        local_steps: E, at least 2.
        problems: drawn quadratics, each with shares and noise of its own.
        steps: T of the descents, and of the recursion taken as an equality.
        points: drawn of the weights of a softmax regression, for lemma 1.
    """

    traits: ClassVar[CheckTraits] = CheckTraits(seconds=4.0)

    clients: Count = 10
    participants: Count = 5
    local_steps: Count = 5
    problems: Count = 99
    steps: Count = 1000
    points: Count = 2000

    def run(self, seed: int, clients: Clients | None, track: Track) -> Iterable[Number]:
        """Return ``left_over_right`` by statement, kind (assumed, violated, misprint) and case, largest of all.

        ``left_over_tighter`` is the same with constants for the squared rates' mean, ``ratio`` that of single steps,
        which the row names as t.

        Raises:
            UserError: not K < N, or E below 2.
        """
        if not self.participants < self.clients or self.local_steps < 2:
            raise UserError("averaging-lemmas: needs participants < clients and at least 2 local steps")
        groups = (self._of_weighted, self._of_everyone, self._of_some, self._of_points)
        for group in track(range(len(groups)), len(groups), "averaging-lemmas"):
            for case in groups[group](seed):
                yield from case.numbers()
        for case in (*_of_lemma_1(), *_of_lemma_3(), *_of_steps(), *_of_induction(self.steps), *_of_theorem()):
            yield from case.numbers()

    def _descents(self, seed: int, participants: int, *, scaled: bool) -> ExactDescents:
        made = made_up_quadratics(seed, drawn_shares(seed, self.problems, self.clients), COORDINATES, CONDITION)
        return exact_descents(*made, participants, self.local_steps, self.steps, scaled=scaled)

    def _of_weighted(self, seed: int) -> Iterator[_Case]:
        """Yield the lemmas as they are stated, with shares p_k in the mean."""
        known = self._descents(seed, self.clients, scaled=False)
        given = known.course, known.plan.rates, known.constants
        yield _drawn("lemma-1", progress_ratios(*given))
        yield _drawn("lemma-3", drift_ratios(*given), drift_ratios(*given, tighter=True))

    def _of_everyone(self, seed: int) -> Iterator[_Case]:
        """Yield eq. (17) for scaled losses, with all clients."""
        drawn = _drawn("step-17", *_steps_of(self._descents(seed, self.clients, scaled=True)))
        yield replace(drawn, course=None)  # it looks like that of eq. (18)

    def _of_some(self, seed: int) -> Iterator[_Case]:
        """Yield eq. (18), with K clients, and what the induction makes of it."""
        known = self._descents(seed, self.participants, scaled=True)
        yield _drawn("step-18", *_steps_of(known))
        yield _drawn("induction", *_inductions_of(known))

    def _of_points(self, seed: int) -> Iterator[_Case]:
        """Yield lemma 1 at points that no descent need pass."""
        shares = drawn_shares(seed, self.problems, self.clients)
        curvatures = made_up_quadratics(seed, shares, 1, CONDITION)[0].curvatures[:, 0]
        worst = [worst_progress(*both, LARGEST_RATE, 1.0, 1 / CONDITION)
                 for both in zip(curvatures, shares, strict=True)]  # fmt: skip
        yield _Case("lemma-1", ASSUMED, "worst-points", max(worst))
        yield _Case("lemma-1", ASSUMED, "softmax", softmax_progress(seed, self.clients, self.points)[0])


def _drawn(statement: str, ratios: Tensor, tighter: Tensor | None = None) -> _Case:
    """Return the case of many problems, [T, P]."""
    of_tighter = None if tighter is None else float(tighter.max())
    return _Case(statement, ASSUMED, "drawn", float(ratios.max()), of_tighter, ratios.amax(1))


def _scaled(known: ExactDescents) -> tuple[list[Constants], list[Constants]]:
    """Return the constants of scaled losses that hold for any client, and those that only the mean needs."""
    both = list(zip(known.constants, known.shares, strict=True))
    return [needed(*one) for one in both], [own(*one) for one in both]


def _noises(constants: Sequence[Constants], *, tighter: bool = False) -> Tensor:
    return torch.tensor([noise_terms(one, tighter=tighter) for one in constants], dtype=torch.float64)


def _steps_of(known: ExactDescents) -> tuple[Tensor, Tensor]:
    for_any, for_mean = _scaled(known)
    given = known.course.distances, known.plan.rates
    return (
        step_ratios(*given, for_any, _noises(for_any)),
        step_ratios(*given, for_mean, _noises(for_mean, tighter=True)),
    )


def _inductions_of(known: ExactDescents) -> tuple[Tensor, Tensor]:
    for_any, for_mean = _scaled(known)
    ratios = [
        induction_ratios(known.course.distances, constants, torch.tensor(
            [ceiling(one, noise_terms(one, tighter=tighter)) for one in constants], dtype=torch.float64
        ))
        for constants, tighter in ((for_any, False), (for_mean, True))
    ]  # fmt: skip
    return ratios[0], ratios[1]


# Cases with closed forms: tests/theory/test_averaging_lemmas.py has them.


def _of_lemma_1() -> Iterator[_Case]:
    """Yield a rate eight times too large, and losses ten times flatter than is said."""
    one = torch.ones(1, dtype=torch.float64)
    yield _Case("lemma-1", VIOLATED, "rate-too-large", worst_progress(one, one, 8 * LARGEST_RATE, 1.0, 1 / CONDITION))
    yield _Case("lemma-1", VIOLATED, "too-flat", worst_progress(one / CONDITION, one, LARGEST_RATE, 1.0, 1.0))


def _of_lemma_3() -> Iterator[_Case]:
    """Yield clients that pull apart, half of them each way, with rates that fall by 2, or by 4, within a round."""
    sides = torch.ones(OPPOSED, dtype=torch.float64)
    sides[::2] = -1
    losses = Quadratics(
        torch.full((1, 1, OPPOSED), NEARLY_LINEAR, dtype=torch.float64),
        sides.view(1, 1, -1),
        torch.zeros(1, 1, OPPOSED, dtype=torch.float64),
        torch.full((1, OPPOSED), 1 / OPPOSED, dtype=torch.float64),
    )
    start = torch.zeros(1, 1, dtype=torch.float64)
    for kind, name, fall in ((ASSUMED, "opposed-clients", 2), (VIOLATED, "rates-quartered", 4)):
        rates = SMALL_RATE * torch.tensor([[1.0], [1.0], [1 / fall]], dtype=torch.float64)
        known = exact_descents(losses, start, OPPOSED, 2, len(rates), scaled=True)
        course = descend(losses, Plan(OPPOSED, 2, SECOND_MOMENT, rates), start)
        constants = [replace(known.constants[0], gradient_square=float(course.squares.max()))]
        tighter = float(drift_ratios(course, rates, constants, tighter=True).max())
        yield _Case("lemma-3", kind, name, float(drift_ratios(course, rates, constants).max()), tighter)


def _identical(noises: Sequence[float], shares: Sequence[float], start: float, participants: int) -> ExactDescents:
    """Return one step of clients with the loss w^2 / 2, noise of these variances and E = 1."""
    flat = torch.ones(1, 1, len(noises), dtype=torch.float64)
    losses = Quadratics(
        flat,
        torch.zeros_like(flat),
        flat * torch.tensor(noises, dtype=torch.float64),
        torch.tensor([shares], dtype=torch.float64),
    )
    at = torch.full((1, 1), start, dtype=torch.float64)
    return exact_descents(losses, at, participants, 1, 1, scaled=True)


def _of_steps() -> Iterator[_Case]:
    """Yield descents that begin at the optimum, where noise is all there is."""
    even = [1 / FEW] * FEW
    known = _identical([1.0] * FEW, even, 0.0, FEW)
    ratio, tighter = _steps_of(known)
    yield _Case("step-17", ASSUMED, "noise-alone", float(ratio.max()), float(tighter.max()))
    law = replace(known.plan, second_moment=EXPONENTIAL_SECOND_MOMENT)
    other = replace(known, course=descend(known.problem, law, torch.zeros(1, 1, dtype=torch.float64)))
    yield _Case("step-17", VIOLATED, "exponential-rates", float(_steps_of(other)[0].max()))

    shares = [LOUD_SHARE, *[(1 - LOUD_SHARE) / (FEW - 1)] * (FEW - 1)]
    loud = _identical([1.0] + [0.0] * (FEW - 1), shares, 0.0, FEW)
    root = [replaced(loud.constants[0], shares)]
    ratio = step_ratios(loud.course.distances, loud.plan.rates, root, _noises(root))
    yield _Case("step-17", MISPRINT, "root-of-nu", float(ratio.max()))

    one = _identical([1.0] * FEW, even, 0.0, 1)
    everyone = noise_terms(replace(one.constants[0], participants=FEW))
    with_rate = everyone + one.plan.rates.square() * (noise_terms(one.constants[0]) - everyone)
    ratio = step_ratios(one.course.distances, one.plan.rates, one.constants, with_rate)
    yield _Case("step-18", MISPRINT, "c-with-rate", float(ratio.max()))


def _of_induction(steps: int) -> Iterator[_Case]:
    """Yield the recursion as an equality, from where noise is all of v, and with a rate of half what it takes."""
    known = _identical([1.0] * FEW, [1 / FEW] * FEW, 0.0, FEW).constants[0]
    noise = noise_terms(known)
    for kind, name, factor in ((ASSUMED, "equality", 2.0), (VIOLATED, "slow-rate", 0.5)):
        start = ceiling(known, noise) / (known.offset + 1)
        own_start = replace(known, start_distance=start)
        ceilings = torch.tensor([ceiling(own_start, noise, factor=factor)], dtype=torch.float64)
        ratios = induction_ratios(iterated(own_start, noise, steps, factor=factor), [own_start], ceilings)
        yield _Case("induction", kind, name, float(ratios.max()), None, ratios[:, 0])


def _of_theorem() -> Iterator[_Case]:
    """Yield clients without noise before any step, where the start is nearly all of the bound."""
    known = _identical([0.0] * FEW, [1 / FEW] * FEW, 1.0, FEW)
    gap, constants = float(known.course.gaps[0, 0]), known.constants[0]
    yield _Case("theorem", ASSUMED, "before-any-step", gap / corrected(constants, 1), gap / tight(constants, 1))
    yield _Case("theorem", MISPRINT, "equation-7", gap / printed(constants, 1))


PLUGIN = AveragingLemmas
