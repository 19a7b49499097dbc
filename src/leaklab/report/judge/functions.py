"""The functions that a check may call besides its questions to the results; each keeps the intervals."""

import math
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaklab.metrics import statistics
from leaklab.metrics.intervals import rank_interval, ranks_together
from leaklab.report.judge import intervals
from leaklab.report.judge.estimates import Estimate, Singles, Truth, estimate, mean_of, monotone, sum_of

E_GRID = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def mean(values: Sequence[Any]) -> Estimate:
    """Return the arithmetic mean, by what the numbers share."""
    return mean_of(values)


def middle(values: Sequence[Any]) -> Estimate:
    """Return the median."""
    return monotone(values, median)


def total(values: Sequence[Any]) -> Any:
    """Return the sum; of comparisons, how many hold."""
    return sum_of(values) if values else 0


def highest(*values: Any) -> Any:
    """Return the largest of the arguments, or of one list."""
    return monotone(_listed(values), max)


def lowest(*values: Any) -> Any:
    """Return the smallest of the arguments, or of one list."""
    return monotone(_listed(values), min)


def every(values: Sequence[Any]) -> Truth:
    """Return whether all comparisons hold."""
    known = [truth(value) for value in values]
    return Truth(*(all(getattr(one, name) for one in known) for name in ("point", "surely", "possibly")))


def some(values: Sequence[Any]) -> Truth:
    """Return whether one comparison holds."""
    known = [truth(value) for value in values]
    return Truth(*(any(getattr(one, name) for one in known) for name in ("point", "surely", "possibly")))


def share(values: Sequence[Any]) -> Estimate:
    """Return the share of comparisons that hold, each of them one trial with what its numbers themselves say."""
    return intervals.share(sum(truth(value).point for value in values), len(values))


def log(values: Sequence[Any]) -> list[Estimate]:
    """Return the natural logarithm of each value.

    Raises:
        ValueError: a value is not positive.
    """
    known = [estimate(value) for value in values]
    return [Estimate(math.log(one.value), _log(one.low), _log(one.high), why=one.why) for one in known]


def spearman(first: Sequence[Any], second: Sequence[Any]) -> Estimate:
    """Return Spearman's rank correlation; of numbers with intervals with the bootstrap's over their updates.

    That takes the published single values of the same updates; without these it may be anything from -1 to 1.

    Raises:
        ValueError: a series is constant, or the lengths differ.
    """
    known = [estimate(value) for value in (*first, *second)]
    value = statistics.spearman(*([estimate(one).value for one in series] for series in (first, second)))
    if all(one.is_exact for one in known):
        return Estimate.exact(value)
    singles = [one.singles for one in known if one.singles is not None]
    if len(singles) < len(known):
        return Estimate(value, -1.0, 1.0, why="no single values are published that its rank correlation could resample")
    if any(one.values.keys() != singles[0].values.keys() for one in singles):
        return Estimate(value, -1.0, 1.0, why="the numbers of its rank correlation are not of the same updates")
    (low, high), why = _resampled(singles, len(first))
    if low is None or high is None:
        return Estimate(value, -1.0, 1.0, why=f"its rank correlation has no interval: {why}")
    return Estimate(value, min(low, value), max(high, value))


def slope(x: Sequence[Any], y: Sequence[Any]) -> Estimate:
    """Return the slope of the least-squares line: a sum of the heights, each with a weight of its place.

    Raises:
        ValueError: all x are equal, or the lengths differ.
    """
    places, heights = [estimate(value) for value in x], [estimate(value) for value in y]
    value = statistics.slope([place.value for place in places], [one.value for one in heights])
    if not all(one.is_exact for one in places) or any(one.is_open for one in heights):
        return Estimate.open(value)
    at = np.array([place.value for place in places])
    weights = (at - at.mean()) / ((at - at.mean()) ** 2).sum()
    line = total([height * float(weight) for height, weight in zip(heights, weights, strict=True)])
    return Estimate(value, min(value, line.low), max(value, line.high))


def at_lowest(x: Sequence[Any], y: Sequence[Any]) -> Estimate:
    """Return the x at which y is lowest; its interval holds every x at which y may be lowest."""
    places, heights = [estimate(value) for value in x], [estimate(value) for value in y]
    best = min(range(len(heights)), key=lambda place: heights[place].value)
    bar = min(one.high for one in heights)
    able = [place.value for place, one in zip(places, heights, strict=True) if one.low <= bar]
    return Estimate(places[best].value, min(able), max(able))


def rounds_to(x: Sequence[Any], fraction: float) -> Estimate:
    """Return the first index at which ``x`` has made ``fraction`` of its total drop (first minus last value)."""
    known = [estimate(value) for value in x]
    goal = fraction * (known[0].value - known[-1].value)
    index = next(index for index, one in enumerate(known) if known[0].value - one.value >= goal)
    return Estimate.exact(index) if all(one.is_exact for one in known) else Estimate.open(index)


def truth(value: Any) -> Truth:
    """Return a plain true or false, or what a comparison gave.

    Raises:
        NumberMissingError: it stands where a number should be.
        TypeError: it is neither.
    """
    if isinstance(value, Truth):
        return value
    if isinstance(value, bool):
        return Truth.of(value)
    estimate(value)
    raise TypeError(f"it gives {value!r}, not true or false")


def _listed(values: tuple[Any, ...]) -> Sequence[Any]:
    return values if len(values) > 1 else list(values[0])


def _resampled(singles: Sequence[Singles], cells: int) -> tuple[tuple[float | None, float | None], str]:
    """Return the bootstrap's interval of the rank correlation of the first ``cells`` numbers with the others."""
    updates = list(singles[0].values)

    def correlation(*samples: NDArray[np.float64], axis: int = -1) -> NDArray[np.float64]:
        levels = [
            (np.median if one.median else np.mean)(sample, axis=axis)
            for one, sample in zip(singles, samples, strict=True)
        ]
        return ranks_together(np.stack(levels[:cells], -1), np.stack(levels[cells:], -1))

    return rank_interval([[one.values[key] for key in updates] for one in singles], correlation)


def _log(end: float) -> float:
    return math.log(end) if end > 0 else -math.inf


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs, "all": every, "any": some, "len": len, "max": highest, "min": lowest, "range": range, "sorted": sorted,
    "sum": total, "zip": zip,
    "mean": mean, "median": middle, "share": share, "spearman": spearman, "slope": slope, "log": log,
    "at_lowest": at_lowest, "rounds_to": rounds_to,
}  # fmt: skip
CONSTANTS: dict[str, Any] = {"E_GRID": E_GRID}
