"""LRP figure 1, computed: where two clients' local steps lead, with equal rates and with rates adapted to them.

Each client has a quadratic loss 1/2 (w - c)' A (w - c) in the plane; the global loss is their mean. Both take a few
steps of gradient descent from the same point, and the server averages. A steep client is done before its last step,
so the mean leans toward the flat one, away from the common optimum; this is the drift. It says nothing about
perturbation, and it is one pair of losses: how often adapted rates help is counted over random pairs.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from leaklab.records import linear_algebra, tensor_algebra
from leaklab.records.bounds import Count, Positive, Rate
from leaklab.records.errors import UserError
from leaklab.records.streams import Stream, stream
from leaklab.records.traits import CheckTraits
from leaklab.theory.base import Clients, Number, Track
from leaklab.theory.convergence import Constants, corrected
from leaklab.theory.convergence_bound import ConvergenceBound
from leaklab.theory.tasks import client, made_up, optimum, pooled

# the sketch: a steep client whose optimum is near the common one, and a flat one far from it
OPTIMA = ((1.0, 2.0), (3.0, -1.0))
CURVATURES = (((1.6, 0.0), (0.0, 1.6)), ((0.4, 0.0), (0.0, 0.4)))
START = (-2.0, 0.0)
PATHS = ("client-1", "client-2")


@dataclass(frozen=True)
class Losses:
    """Pairs of quadratics, G of them at once.

    Attributes:
        optima: [G, 2, 2], c of each of the two clients.
        curvatures: [G, 2, 2, 2], A of each of them, symmetric and positive definite.
        start: [G, 2].
    """

    optima: Tensor
    curvatures: Tensor
    start: Tensor

    @property
    def common(self) -> Tensor:
        """Return the optimum of the mean loss, [G, 2]."""
        pull = (self.curvatures @ self.optima.unsqueeze(-1)).sum(1)
        found: Tensor = torch.linalg.solve(self.curvatures.sum(1), pull)
        return found.squeeze(-1)

    def adapted(self, rate: float, advantage: float) -> Tensor:
        """Return rates [G, 2]: (1 + a) rate for the client whose optimum is nearer to the common one, else (1 - a)."""
        away = (self.optima - self.common.unsqueeze(1)).square().sum(-1)
        nearer = away == away.amin(1, keepdim=True)
        return rate * torch.where(nearer, 1 + advantage, 1 - advantage)

    def paths(self, rates: Tensor, steps: int) -> Tensor:
        """Return the clients' points from the common start on, [G, 2, steps + 1, 2]; rates [G, 2]."""
        points = [self.start.unsqueeze(1).expand(-1, 2, -1)]
        for _ in range(steps):
            slope = (self.curvatures @ (points[-1] - self.optima).unsqueeze(-1)).squeeze(-1)
            points.append(points[-1] - rates.unsqueeze(-1) * slope)
        return torch.stack(points, dim=2)

    def angles(self, rates: Tensor, steps: int) -> Tensor:
        """Return the angle between the mean update and the direction to the common optimum, [G], in degrees."""
        update = self.paths(rates, steps)[:, :, -1].mean(1) - self.start
        wanted = self.common - self.start
        turn = update[:, 0] * wanted[:, 1] - update[:, 1] * wanted[:, 0]
        return torch.atan2(turn.abs(), (update * wanted).sum(-1)).rad2deg()


@dataclass(frozen=True)
class DriftSketch:
    """Draw the paths of one pair of clients, and count over random pairs how often adapted rates turn less far.

    Attributes:
        steps: local steps.
        rate: of both clients when equal.
        advantage: share of the rate that the nearer client gains and the other loses.
        pairs: random pairs of quadratics; both clients' optima and the start have standard normal entries.
    """

    traits: ClassVar[CheckTraits] = CheckTraits(seconds=3.0)

    steps: Count = 3
    rate: Rate = 0.4
    advantage: float = 0.5
    pairs: Count = 10_000

    def run(self, seed: int, clients: Clients | None, track: Track) -> Iterable[Number]:
        """Return ``x`` and ``y`` along the paths, ``angle`` for both kinds of rates, and the optima as single points.

        Raises:
            UserError: a setting is outside its range.
        """
        if self.steps < 1 or self.rate <= 0 or not 0 < self.advantage < 1 or self.pairs < 1:
            raise UserError("drift-sketch: needs steps, a rate and pairs above 0 and an advantage between 0 and 1")
        return [*self._sketched(sketch()), self._counted(random_pairs(stream(seed, "drift-sketch"), self.pairs))]

    def _rates(self, losses: Losses) -> dict[str, Tensor]:
        adapted = losses.adapted(self.rate, self.advantage)
        return {"equal": torch.full_like(adapted, self.rate), "adapted": adapted}

    def _sketched(self, losses: Losses) -> Iterator[Number]:
        for name, point in zip(("optimum", *(f"optimum_{path}" for path in PATHS)), _optima(losses), strict=True):
            yield from (Number(f"{name}_{axis}", float(value)) for axis, value in zip("xy", point, strict=True))
        for kind, rates in self._rates(losses).items():
            yield Number("angle", float(losses.angles(rates, self.steps)), {"rates": kind})
            (own,) = losses.paths(rates, self.steps)
            straight = torch.stack([losses.start[0], losses.common[0]])
            for name, path in zip((*PATHS, "average", "optimum"), (*own, own.mean(0), straight), strict=True):
                yield from _points(path, {"rates": kind, "path": name})

    def _counted(self, losses: Losses) -> Number:
        rates = self._rates(losses)
        fewer = losses.angles(rates["adapted"], self.steps) < losses.angles(rates["equal"], self.steps)
        return Number("share_of_pairs_turned_less", float(fewer.double().mean()), {"rates": "adapted"}, n=self.pairs)


def sketch() -> Losses:
    """Return the pair that the figure shows."""
    optima, curvatures, start = (torch.tensor([v], dtype=torch.float64) for v in (OPTIMA, CURVATURES, START))
    return Losses(optima, curvatures, start)


def random_pairs(draws: Stream, pairs: int) -> Losses:
    """Return random pairs: curvatures B B' / 2 + 0.1 with standard normal B, scaled to an eigenvalue of 2 at most."""
    root = draws.normal(pairs, 2, 2, 2)
    curved = root @ root.mT / 2 + 0.1 * torch.eye(2, dtype=torch.float64)
    steepest = tensor_algebra.eigenvalues(curved).amax((1, 2))
    curved = curved * (2 / steepest.clamp(min=2))[:, None, None, None]
    return Losses(draws.normal(pairs, 2, 2), curved, draws.normal(pairs, 2))


def _optima(losses: Losses) -> Tensor:
    """Return the sketch's optima: the common one, then each client's, [3, 2]."""
    return torch.cat([losses.common, losses.optima[0]])


def _points(path: Tensor, row: dict[str, str]) -> Iterator[Number]:
    for place, point in enumerate(path.tolist()):
        yield from (Number(axis, value, row, place) for axis, value in zip("xy", point, strict=True))


# What the theorem says of the number of local steps, and of the number of a client's classes.


@dataclass(frozen=True)
class RoundsBySteps:
    """Rounds after which the bound of theorem 1 lies below a gap, by the number of local steps (LRP appendix F).

    The constants are those that clients met who average after every step, whatever E the bound is asked for.

    Attributes:
        gap: of the mean model's loss to the lowest.
        longest: E is 1, 2, 4, ... up to this.
        steps: of the descent that meets the constants.
        repeats: of it.
    """

    traits: ClassVar[CheckTraits] = CheckTraits(seconds=1.5)

    gap: Positive = 0.1
    longest: Count = 64
    steps: Count = 1000
    repeats: Count = 10

    def run(self, seed: int, clients: Clients | None, track: Track) -> Iterator[Number]:
        """Return ``rounds`` by E, and what a / E + b + c E says of them.

        ``off_hyperbola`` is how far they lie from it at most, as a part; ``best_steps`` where it is lowest.
        """
        known, _ = ConvergenceBound(local_steps=1, steps=self.steps, repeats=self.repeats).met(seed, track)
        every = 2 ** np.arange(int(np.log2(self.longest)) + 1)
        asked = [replace(known, local_steps=int(steps)) for steps in every]
        rounds = np.array([self._steps(constants) for constants in asked]) / every
        yield from (Number("rounds", value, {"E": int(steps)}) for steps, value in zip(every, rounds, strict=True))
        shapes = np.stack([1 / every, np.ones(len(every)), every], 1) / rounds[:, None]
        parts = linear_algebra.least_squares_of(shapes, np.ones(len(every)))
        yield Number("off_hyperbola", float(np.abs(shapes @ parts - 1).max()), {"E": "all"})
        yield Number("best_steps", float(np.sqrt(parts[0] / parts[2])), {"E": "all"})

    def _steps(self, constants: Constants) -> float:
        """Return T at which the bound, c / (gamma + T), is the gap."""
        return corrected(constants, 1) * (constants.offset + 1) / self.gap - constants.offset


@dataclass(frozen=True)
class OptimaByClasses:
    """How far the optima of clients lie from the common one, by the number of their classes (LRP section 4.3).

    For each number of classes there is a client for each class that it can begin with.

    Attributes:
        samples: of each client.
        features: d.
        classes: C.
        ridge: mu.
    """

    traits: ClassVar[CheckTraits] = CheckTraits(seconds=1.5)

    samples: Count = 60
    features: Count = 20
    classes: Count = 10
    ridge: Positive = 0.01

    def run(self, seed: int, clients: Clients | None, track: Track) -> Iterator[Number]:
        """Return ``optimum_distance`` by ``classes``: the mean of |W_k* - W*| over the clients with so many."""
        count = self.classes**2
        held = 1 + torch.arange(count) // self.classes
        problem = made_up(seed, count, self.samples, self.features, self.classes, self.ridge, held)
        best, _ = optimum(pooled(problem))
        places = track(range(count), count, "client")
        found = torch.stack([(optimum(client(problem, place))[0] - best).square().sum().sqrt() for place in places])
        for number, own in enumerate(found.view(self.classes, -1), 1):
            yield Number("optimum_distance", float(own.mean()), {"classes": number}, std=float(own.std()))


PLUGINS = {
    "drift-sketch": DriftSketch,
    "optima-by-classes": OptimaByClasses,
    "rounds-by-steps": RoundsBySteps,
}
