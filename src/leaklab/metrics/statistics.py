"""One summary for all tables (n, mean, median, spread, 95 % bootstrap intervals), and how two series go together."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leaklab.records.draws import draws

RESAMPLES = 2000
LEVEL = 0.95
SEED = 0


@dataclass(frozen=True)
class Summary:
    """What a table says about a set of values.

    Attributes:
        n: number of values.
        mean: arithmetic mean.
        median: middle value.
        std: sample standard deviation (n - 1); None for one value.
        ci_low: lower end of the 95 % percentile bootstrap interval of the mean; None for one value or group.
        ci_high: its upper end.
        median_low: lower end of that interval of the median.
        median_high: its upper end.
    """

    n: int
    mean: float
    median: float
    std: float | None
    ci_low: float | None
    ci_high: float | None
    median_low: float | None
    median_high: float | None


def summarise(values: ArrayLike, *name: str | int, groups: Sequence[Hashable] | None = None) -> Summary:
    """Summarise values; the bootstrap's draws belong to the name ``name``.

    Args:
        values: one-dimensional, finite.
        name: names the number, e.g. ``"lrp", "figure2", row, "psnr"``; an equal name gives equal draws.
        groups: one key per value; values of a group (draws of the same image) are resampled together, because they
            are not independent. None takes every value as its own group.

    Raises:
        ValueError: no values, a value that is not finite, or a number of keys that differs.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0 or not np.isfinite(array).all():
        raise ValueError("a summary needs at least one value, all finite, in one dimension")
    members = _members(array, groups)
    drawn = draws(SEED, "bootstrap", *name).integers(0, len(members), RESAMPLES, len(members))
    low, high = _interval(drawn, lambda: _means(members, drawn))
    median_low, median_high = _interval(drawn, lambda: _medians(members, drawn))
    return Summary(
        n=array.size,
        mean=float(array.mean()),
        median=float(np.median(array)),
        std=float(array.std(ddof=1)) if array.size > 1 else None,
        ci_low=low,
        ci_high=high,
        median_low=median_low,
        median_high=median_high,
    )


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's rank correlation, in [-1, 1]; ties share their mean rank.

    Raises:
        ValueError: a series is constant, or the lengths differ.
    """
    x, y = _centered(_ranks(first)), _centered(_ranks(second))
    scale = math.sqrt(sum(a * a for a in x) * sum(b * b for b in y))
    if scale == 0:
        raise ValueError("a rank correlation with a constant series is not defined")
    return sum(a * b for a, b in zip(x, y, strict=True)) / scale


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the slope of the least-squares line through the points.

    Raises:
        ValueError: all x are equal, or the lengths differ.
    """
    dx, dy = _centered(x), _centered(y)
    spread = sum(a * a for a in dx)
    if spread == 0:
        raise ValueError("a slope over a single x is not defined")
    return sum(a * b for a, b in zip(dx, dy, strict=True)) / spread


def _members(array: NDArray[np.float64], groups: Sequence[Hashable] | None) -> list[NDArray[np.float64]]:
    """Return the values of each group, in the order in which the groups appear."""
    keys = range(array.size) if groups is None else groups
    if len(keys) != array.size:
        raise ValueError(f"{array.size} values but {len(keys)} group keys")
    found: dict[Hashable, list[float]] = {}
    for key, value in zip(keys, array.tolist(), strict=True):
        found.setdefault(key, []).append(value)
    return [np.array(values) for values in found.values()]


def _means(members: Sequence[NDArray[np.float64]], drawn: NDArray[np.int64]) -> NDArray[np.float64]:
    sums, counts = (np.array([take(own) for own in members]) for take in (np.sum, np.size))
    means: NDArray[np.float64] = sums[drawn].sum(1) / counts[drawn].sum(1)
    return means


def _medians(members: Sequence[NDArray[np.float64]], drawn: NDArray[np.int64]) -> NDArray[np.float64]:
    if len({own.size for own in members}) == 1:
        medians: NDArray[np.float64] = np.median(np.stack(members)[drawn].reshape(len(drawn), -1), axis=1)
        return medians
    return np.array([np.median(np.concatenate([members[place] for place in places])) for places in drawn])


def _interval(
    drawn: NDArray[np.int64], statistics: Callable[[], NDArray[np.float64]]
) -> tuple[float, float] | tuple[None, None]:
    if drawn.shape[1] < 2:
        return None, None
    low, high = np.quantile(statistics(), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _centered(values: Sequence[float]) -> list[float]:
    middle = fmean(values)
    return [value - middle for value in values]


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    first = {value: place for place, value in reversed(list(enumerate(ordered)))}
    last = {value: place for place, value in enumerate(ordered)}
    return [(first[value] + last[value]) / 2 for value in values]
