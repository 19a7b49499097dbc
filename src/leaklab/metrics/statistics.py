"""One summary for all tables: n, mean, median, sample standard deviation and a 95 % bootstrap interval of the mean."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leaklab.records.streams import stream

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
    """

    n: int
    mean: float
    median: float
    std: float | None
    ci_low: float | None
    ci_high: float | None


def summarise(values: ArrayLike, *name: str | int, groups: Sequence[Hashable] | None = None) -> Summary:
    """Summarise values; the bootstrap's draws belong to the stream called ``name``.

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
    sums, counts = _totals(array, groups)
    low, high = _interval(sums, counts, name)
    return Summary(
        n=array.size,
        mean=float(array.mean()),
        median=float(np.median(array)),
        std=float(array.std(ddof=1)) if array.size > 1 else None,
        ci_low=low,
        ci_high=high,
    )


def _totals(
    array: NDArray[np.float64], groups: Sequence[Hashable] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return sum and number of values of each group, in the order in which the groups appear."""
    if groups is None:
        return array, np.ones_like(array)
    place: dict[Hashable, int] = {}
    index = [place.setdefault(key, len(place)) for key in groups]
    if len(index) != array.size:
        raise ValueError(f"{array.size} values but {len(index)} group keys")
    sums = np.bincount(index, weights=array).astype(np.float64)
    return sums, np.bincount(index).astype(np.float64)


def _interval(
    sums: NDArray[np.float64], counts: NDArray[np.float64], name: tuple[str | int, ...]
) -> tuple[float, float] | tuple[None, None]:
    if sums.size < 2:
        return None, None
    drawn = stream(SEED, "bootstrap", *name).integers(0, sums.size, RESAMPLES, sums.size).numpy()
    means = sums[drawn].sum(1) / counts[drawn].sum(1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)
