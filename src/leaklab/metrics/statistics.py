"""One summary for all tables (n, clusters, mean, median, spread, 95 % intervals), and how two series go together.

Values of a cluster (the images of one update, its draws) are not independent, so the clusters are what is counted:
a cluster has one mean and one median, and the interval is over these.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import ArrayLike, NDArray

LEVEL = 0.95
LEAST_CLUSTERS = 6
"""Below six not even all values on one side are rare by chance (2 / 2^5 = 6 %), so there is no interval."""


@dataclass(frozen=True)
class Summary:
    """What a table says about a set of values.

    Attributes:
        n: number of values.
        clusters: number of independent clusters of them.
        mean: mean over the clusters of a cluster's mean.
        median: median over the clusters of a cluster's median.
        std: sample standard deviation (n - 1) of the clusters' means; None for one cluster.
        ci_low: lower end of Student's 95 % interval of the mean; None below ``LEAST_CLUSTERS``.
        ci_high: its upper end.
        median_low: lower end of the sign test's interval of the median (an order statistic of the clusters' medians),
            which covers at least 95 %; None below ``LEAST_CLUSTERS``.
        median_high: its upper end.
    """

    n: int
    clusters: int
    mean: float
    median: float
    std: float | None
    ci_low: float | None
    ci_high: float | None
    median_low: float | None
    median_high: float | None


def summarise(values: ArrayLike, clusters: Sequence[Hashable] | None = None) -> Summary:
    """Summarise values; equal values have equal intervals.

    Args:
        values: one-dimensional, finite.
        clusters: one key per value; values with one key are of one cluster. None: every value is its own.

    Raises:
        ValueError: no values, a value that is not finite, or a number of keys that differs.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0 or not np.isfinite(array).all():
        raise ValueError("a summary needs at least one value, all finite, in one dimension")
    members = list(by_cluster(array, clusters).values())
    means = np.array([own.mean() for own in members])
    medians = np.array([np.median(own) for own in members])
    std = float(means.std(ddof=1)) if len(means) > 1 else None
    low, high = _student(means, std)
    median_low, median_high = _order_statistics(medians)
    return Summary(
        n=array.size,
        clusters=len(members),
        mean=float(means.mean()),
        median=float(np.median(medians)),
        std=std,
        ci_low=low,
        ci_high=high,
        median_low=median_low,
        median_high=median_high,
    )


def paired_difference(first: ArrayLike, second: ArrayLike, clusters: Sequence[Hashable] | None = None) -> Summary:
    """Summarise ``first - second``, value by value: what two attackers found in the same updates.

    Args:
        first: one-dimensional, finite.
        second: the same length; the values at one place belong together.
        clusters: as in ``summarise``.

    Raises:
        ValueError: as ``summarise``, or the lengths differ.
    """
    one, other = (np.asarray(values, dtype=np.float64) for values in (first, second))
    if one.shape != other.shape:
        raise ValueError(f"pairs need as many values on both sides, not {one.size} and {other.size}")
    return summarise(one - other, clusters)


def by_cluster(values: ArrayLike, clusters: Sequence[Hashable] | None = None) -> dict[Hashable, NDArray[np.float64]]:
    """Return the values of each cluster, in the order in which the clusters appear.

    Raises:
        ValueError: the number of keys differs from that of the values.
    """
    array = np.asarray(values, dtype=np.float64)
    keys = range(array.size) if clusters is None else clusters
    if len(keys) != array.size:
        raise ValueError(f"{array.size} values but {len(keys)} keys of clusters")
    found: dict[Hashable, list[float]] = {}
    for key, value in zip(keys, array.tolist(), strict=True):
        found.setdefault(key, []).append(value)
    return {key: np.array(own) for key, own in found.items()}


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


def _student(means: NDArray[np.float64], std: float | None) -> tuple[float, float] | tuple[None, None]:
    if std is None or len(means) < LEAST_CLUSTERS:
        return None, None
    from scipy.special import stdtrit  # slow to import

    middle = float(means.mean())
    reach = float(stdtrit(len(means) - 1, (1 + LEVEL) / 2)) * std / math.sqrt(len(means))
    return middle - reach, middle + reach


def _order_statistics(medians: NDArray[np.float64]) -> tuple[float, float] | tuple[None, None]:
    if len(medians) < LEAST_CLUSTERS:
        return None, None
    from scipy.stats import quantile_test  # slow to import

    interval = quantile_test(medians, p=0.5).confidence_interval(LEVEL)
    return float(interval.low), float(interval.high)


def _centered(values: Sequence[float]) -> list[float]:
    middle = fmean(values)
    return [value - middle for value in values]


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    first = {value: place for place, value in reversed(list(enumerate(ordered)))}
    last = {value: place for place, value in enumerate(ordered)}
    return [(first[value] + last[value]) / 2 for value in values]
