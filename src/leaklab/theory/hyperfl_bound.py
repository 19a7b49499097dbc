"""HyperFL theorem 1, checked: the measured mean squared gradient of generated networks against its bound.

The theorem's rate depends on the number of steps T, so every T is a run of its own. L, G^2 and D are those of the set
where the runs stay: cross-entropies are never negative, so D is the largest first loss; L and G^2 are the largest
values met on the way. As rates depend on them, they are raised until no run meets larger ones than its rate was made
for.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from leaklab.records.bounds import Count, Flag
from leaklab.records.errors import UserError
from leaklab.theory.base import Clients, Number, Track
from leaklab.theory.generated_descent import Constants, Task, Way, descend, start_of
from leaklab.theory.tasks import Sizes, first_values, made_up, slopes

FEWEST_STEPS = 10
MARGIN = 1.02
MOST_PASSES = 20


@dataclass(frozen=True)
class HyperFLBound:
    """Train generated networks of a few clients, each of which holds two of the classes, at the theorem's rates.

    Attributes:
        clients: m.
        local_steps: E; after so many steps the hypernetworks are averaged.
        drift: whether M satisfies the printed condition; false leaves out its last term, (E - 1) / L eta_h.
        steps: the largest T; the smallest is 10.
        points: number of different T, evenly spaced on a logarithmic scale.
        repeats: runs that the expectation is taken over, at least 2.
        samples: of each client.
        features: d.
        classes: C.
        units: of the generated layer.
        hidden: of the hypernetwork.
        embedding: its length.
        series: whether the curves are given by ``index`` too; of an item's settings one has this.
    """

    clients: Count = 4
    local_steps: Count = 5
    drift: Flag = True
    steps: Count = 3000
    points: Count = 10
    repeats: Count = 8
    samples: Count = 20
    features: Count = 4
    classes: Count = 3
    units: Count = 3
    hidden: Count = 3
    embedding: Count = 2
    series: Flag = False

    def run(self, seed: int, clients: Clients | None, track: Track) -> Iterable[Number]:
        """Return what the runs come to, and the curves over T.

        Numbers carry E and whether the condition is the printed one in their row, and T where they belong to one.

        Raises:
            UserError: the settings do not fit each other.
            ArithmeticError: no constants were found that the runs keep.
        """
        self._check()
        task, lengths = self._task(seed), self.lengths
        gap = float(slopes(task.start, task.features, task.labels).losses.max())
        seen = start_of(task)
        for number in range(MOST_PASSES):
            constants = Constants(
                MARGIN * seen.smoothness, MARGIN * seen.gradient_square, gap, self.local_steps, self.drift
            )
            rates = [constants.rates(length) for length in lengths]
            way = descend(task, lengths, rates, track, f"E={self.local_steps}, pass {number + 1}")
            if kept(constants, way):
                return self._numbers(constants, lengths, way)
            seen = replace(
                way,
                smoothness=max(seen.smoothness, way.smoothness),
                gradient_square=max(seen.gradient_square, way.gradient_square),
            )
        raise ArithmeticError(f"hyperfl-bound: the runs met larger constants in each of {MOST_PASSES} passes")

    @property
    def lengths(self) -> list[int]:
        """The different T, ascending."""
        spaced = np.geomspace(FEWEST_STEPS, self.steps, self.points)
        return sorted({round(float(length)) for length in spaced})

    def _check(self) -> None:
        if self.repeats < 2 or self.points < 3 or self.samples < 2 or self.classes < 2:
            raise UserError("hyperfl-bound: needs at least 2 repeats, samples and classes and at least 3 points")
        if self.steps < 2 * FEWEST_STEPS:
            raise UserError(f"hyperfl-bound: needs steps of at least {2 * FEWEST_STEPS}")

    def _task(self, seed: int) -> Task:
        data = made_up(seed, self.clients, self.samples, self.features, self.classes, ridge=0.0)
        sizes = Sizes(self.features, self.classes, self.units, self.hidden, self.embedding)
        start = first_values(seed, sizes, self.repeats, self.clients)
        return Task(data.features, data.labels, start, seed, self.local_steps)

    def _numbers(self, constants: Constants, lengths: list[int], way: Way) -> Iterator[Number]:
        row = {"E": self.local_steps, "condition": "printed" if self.drift else "without-drift"}
        own, shared = way.own.mean(1).numpy(), way.shared.mean(1).numpy()
        spreads = way.own.std(1).numpy()
        bounds = np.array([constants.bound(length) for length in lengths])
        found = {
            "smoothness": constants.smoothness,
            "gradient_square": constants.gradient_square,
            "first_gap": constants.gap,
            "first_factor": constants.factor(lengths[0]),
            "last_factor": constants.factor(lengths[-1]),
            "slope_measured": slope(lengths, own),
            "slope_bound": slope(lengths, bounds),
            "largest_over_bound": float((own / bounds).max()),
            "last_over_bound": float(own[-1] / bounds[-1]),
            "last_bound_over_assumed": float(bounds[-1] / (3 * constants.gradient_square)),
        }
        yield from (Number(name, value, row) for name, value in found.items())
        for place, length in enumerate(lengths):
            at = {**row, "T": length}
            at_length = [
                Number("mean_sq_grad", float(own[place]), at, None, float(spreads[place]), self.repeats),
                Number("mean_sq_grad_shared", float(shared[place]), at),
                Number("bound", float(bounds[place]), at),
            ]
            yield from at_length
            if self.series:
                yield Number("steps", float(length), row, place)
                yield from (replace(number, row=row, index=place) for number in at_length)


def kept(constants: Constants, way: Way) -> bool:
    """Whether no run met larger constants than those that its rate was made for."""
    return way.smoothness <= constants.smoothness and way.gradient_square <= constants.gradient_square


def slope(lengths: list[int], values: np.ndarray) -> float:
    """Return the slope of log value over log T, by least squares."""
    return float(np.polyfit(np.log(lengths), np.log(values), 1)[0])


PLUGIN = HyperFLBound
