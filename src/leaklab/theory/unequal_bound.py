"""LRP theorem 1 for unequal shares, checked: gap of the weighted loss against the bound with nu and varsigma.

Drawn descents run on the task of ``convergence_bound``, with the largest gradients on their way for G. On quadratics
the expectations are exact, so that many shares can be tried: there ratios are the theorem's own, without any spread.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leaklab.records.bounds import Count, Flag, Positive
from leaklab.records.errors import UserError
from leaklab.theory.base import Clients, Number, Track
from leaklab.theory.convergence import Constants, Plan, Trajectory, descend, draw
from leaklab.theory.convergence_bound import declared_steps, slope_of_second_half
from leaklab.theory.progress import ExactDescents, exact_descents
from leaklab.theory.quadratics import made_up_quadratics
from leaklab.theory.shares import (
    BOUNDS,
    MeanRidge,
    ScaledRidge,
    drawn_shares,
    extremes,
    geometric_shares,
    replaced,
)
from leaklab.theory.tasks import RidgeSoftmax, client, made_up, optimum


@dataclass(frozen=True)
class _Watched(ScaledRidge):
    """Scaled losses that keep the largest mean square of a sample's gradient of each client, [N]."""

    largest: Tensor

    def gradient_squares(self, logits: Tensor, residuals: Tensor, weights: Tensor) -> Tensor:
        squares = super().gradient_squares(logits, residuals, weights)
        torch.maximum(self.largest, squares.flatten(0, -2).amax(0), out=self.largest)
        return squares


@dataclass(frozen=True)
class UnequalBound:
    """Train on a made-up non-IID ridge softmax regression whose clients count differently.

    Attributes:
        ratio: largest over smallest share; shares are a geometric sequence.
        scaled: clients step on N p_k L_k, as eq. (9) has it; else on L_k, which leads elsewhere.
        clients: N.
        participants: K, whose models are averaged.
        local_steps: E.
        steps: T.
        repeats: runs that the expectation is taken over, at least 2.
        samples: of each client.
        features: d.
        classes: C.
        ridge: mu.
    """

    ratio: Positive = 4.0
    scaled: Flag = True
    clients: Count = 10
    participants: Count = 5
    local_steps: Count = 5
    steps: Count = 10_000
    repeats: Count = 20
    samples: Count = 20
    features: Count = 10
    classes: Count = 5
    ridge: Positive = 0.1

    def run(self, seed: int, clients: Clients | None, track: Track) -> Iterable[Number]:
        """Return what the run comes to, and gap and bounds at about 100 steps, which their rows name as T.

        ``square_over_replaced``: of all clients the largest mean square of a scaled gradient, over nu G^2, which the
        paper puts in its place; above 1 the assumption that the proof rests on does not hold with it.

        Raises:
            UserError: the settings do not fit each other.
        """
        self._check()
        shares = geometric_shares(self.clients, self.ratio)
        problem = made_up(seed, self.clients, self.samples, self.features, self.classes, self.ridge)
        scales = self.clients * torch.tensor(shares, dtype=torch.float64)
        weighted = MeanRidge(**vars(problem), scales=scales)
        best, lowest = optimum(weighted)
        own = [share * optimum(client(problem, place))[1] for place, share in enumerate(shares)]
        known = self._known(problem, lowest - sum(own))
        steps_on = scales if self.scaled else torch.ones_like(scales)
        watched = _Watched(**vars(problem), scales=steps_on, largest=torch.zeros_like(scales))
        way = self._descend(seed, watched, weighted, replaced(known, shares), lowest, track)
        squares = watched.largest / steps_on.square()
        constants = replace(
            known,
            variances=tuple((way.variances / steps_on.square()).tolist()),
            gradient_square=float(squares.max()),
            start_distance=float((way.start - best).square().sum((-2, -1)).mean()),
        )
        over = float((scales.square() * squares).max()) / replaced(constants, shares).gradient_square
        return self._numbers(constants, shares, over, way.means.numpy())

    def _known(self, problem: RidgeSoftmax, heterogeneity: float) -> Constants:
        """Return the constants that are known before anything runs."""
        return Constants(
            smoothness=problem.smoothness,
            convexity=self.ridge,
            variances=(0.0,) * self.clients,
            gradient_square=0.0,
            heterogeneity=heterogeneity,
            start_distance=0.0,
            participants=self.participants,
            local_steps=self.local_steps,
            perturbed=True,
        )

    def _check(self) -> None:
        if self.participants > self.clients:
            raise UserError("unequal-bound: needs participants <= clients")
        if self.repeats < 2 or self.steps < 4 or self.samples < 2 or self.classes < 2:
            raise UserError("unequal-bound: needs repeats, samples and classes of at least 2 and at least 4 steps")

    def _descend(
        self, seed: int, problem: ScaledRidge, weighted: MeanRidge, known: Constants, lowest: float, track: Track
    ) -> Trajectory:
        plan = Plan(self.participants, self.local_steps, True, self.steps, self.repeats, known.rate)
        draws = draw(seed, problem, self.steps, self.repeats)
        label = f"shares 1 to {self.ratio:g}"
        return descend(problem, plan, draws, lambda mean: weighted.losses(mean)[..., 0] - lowest, track, label)

    def _numbers(
        self, constants: Constants, shares: Sequence[float], over: float, gaps: NDArray[np.float64]
    ) -> Iterator[Number]:
        row = {
            "task": "softmax",
            "shares": f"{self.ratio:g}",
            "K": self.participants,
            "E": self.local_steps,
            "scaled": self.scaled,
        }
        means, spreads = gaps.mean(1), gaps.std(1, ddof=1)
        declared = declared_steps(self.steps)
        found = _about(shares, over) | largest_ratios(constants, shares, means)
        found["gap_slope"] = slope_of_second_half(declared, means[declared - 1])
        yield from (Number(name, value, row) for name, value in found.items())
        yield Number("last_gap", float(means[-1]), row, std=float(spreads[-1]), n=self.repeats)
        for step in declared.tolist():
            at = {**row, "T": step}
            yield Number("gap", float(means[step - 1]), at, None, float(spreads[step - 1]), self.repeats)
            yield from (Number(name, bound(constants, shares, step), at) for name, bound in BOUNDS.items())


@dataclass(frozen=True)
class UnequalQuadratics:
    """Average on made-up quadratics with as many shares, in expectation.

    Attributes:
        clients: N.
        participants: K, whose models are averaged.
        local_steps: E.
        problems: how many, each with shares, losses and noise of its own.
        coordinates: of the weights.
        condition: kappa.
        steps: T.
    """

    clients: Count = 10
    participants: Count = 5
    local_steps: Count = 5
    problems: Count = 99
    coordinates: Count = 3
    condition: Positive = 10.0
    steps: Count = 1000

    def run(self, seed: int, clients: Clients | None, track: Track) -> Iterable[Number]:
        """Return the largest of all problems for each number of ``UnequalBound``, the smallest for varsigma.

        Raises:
            UserError: K is above N, or kappa below 1.
        """
        if self.participants > self.clients or self.condition < 1:
            raise UserError("unequal-quadratics: needs participants <= clients and a condition of at least 1")
        shares = drawn_shares(seed, self.problems, self.clients)
        made = made_up_quadratics(seed, shares, self.coordinates, self.condition)
        known = exact_descents(*made, self.participants, self.local_steps, self.steps, scaled=True)
        row = {"task": "quadratics", "shares": "drawn", "K": self.participants, "E": self.local_steps, "scaled": True}
        found = [self._of_one(known, place) for place in track(range(self.problems), self.problems, "shares")]
        for name in found[0]:
            values = [one[name] for one in found]
            yield Number(name, min(values) if name == "varsigma" else max(values), row)

    def _of_one(self, known: ExactDescents, place: int) -> dict[str, float]:
        constants, shares = known.constants[place], known.shares[place]
        over = float(known.course.squares[place].max()) / replaced(constants, shares).gradient_square
        return _about(shares, over) | largest_ratios(constants, shares, known.course.gaps[:, place].numpy())


def largest_ratios(constants: Constants, shares: Sequence[float], gaps: NDArray[np.float64]) -> dict[str, float]:
    """Return for each form of the bound the largest gap over bound of all steps; gaps [T]."""
    return {
        f"largest_gap_over_{name}": max(float(gap) / bound(constants, shares, step) for step, gap in enumerate(gaps, 1))
        for name, bound in BOUNDS.items()
    }


def _about(shares: Sequence[float], over: float) -> dict[str, float]:
    nu, varsigma = extremes(shares)
    return {"nu": nu, "varsigma": varsigma, "square_over_replaced": over}


PLUGINS = {
    "unequal-bound": UnequalBound,
    "unequal-quadratics": UnequalQuadratics,
}
