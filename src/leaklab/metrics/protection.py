"""What a defense leaves of an attack, in percent: 0 as without defense, 100 as an answer that knows only the label."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leaklab.metrics.statistics import LEAST_CLUSTERS, LEVEL

RESAMPLES = 2000
SEED = 0


@dataclass(frozen=True)
class ProtectionLeft:
    """A share with its 95 % interval, all in percent and not clipped.

    Attributes:
        value: 100 (defended - undefended) / (reference - undefended).
        low: lower end of the bootstrap's interval (BCa, over the clusters); None below six clusters, and where the
            resamples do not vary.
        high: its upper end.
    """

    value: float
    low: float | None
    high: float | None


def protection_left(
    undefended: ArrayLike,
    defended: ArrayLike,
    reference: ArrayLike,
    better: Literal["higher", "lower"],
    median: bool = True,
) -> ProtectionLeft | None:
    """Return how far a defense moves an attack from its undefended level towards the reference's.

    Args:
        undefended: one level per cluster (update) of the attack without defense, [K].
        defended: of the attack under the defense, on the same clusters in the same order.
        reference: of the answer that knows no more than the label.
        better: direction in which privacy improves.
        median: whether levels are medians over the clusters; else means.

    Returns:
        None where the undefended attack is not better than the reference.

    Raises:
        ValueError: the levels are not of the same clusters.
    """
    levels = [np.asarray(values, dtype=np.float64) for values in (undefended, defended, reference)]
    if any(one.ndim != 1 or one.shape != levels[0].shape for one in levels):
        raise ValueError("protection is paired: it needs one level per cluster three times")
    middle = np.median if median else np.mean

    def share(*samples: NDArray[np.float64], axis: int = -1) -> NDArray[np.float64]:
        before, after, most = (middle(one, axis=axis) for one in samples)
        with np.errstate(divide="ignore", invalid="ignore"):
            found: NDArray[np.float64] = 100 * (after - before) / (most - before)
        return found

    before, most = (float(middle(one)) for one in (levels[0], levels[2]))
    if (most - before) * (1 if better == "higher" else -1) <= 0:
        return None
    low, high = _interval(levels, share)
    return ProtectionLeft(float(share(*levels)), low, high)


def _interval(
    levels: list[NDArray[np.float64]], share: Callable[..., NDArray[np.float64]]
) -> tuple[float, float] | tuple[None, None]:
    if len(levels[0]) < LEAST_CLUSTERS:
        return None, None
    from scipy import stats  # slow to import

    with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        found = stats.bootstrap(
            levels, share, paired=True, vectorized=True, n_resamples=RESAMPLES, confidence_level=LEVEL, method="BCa",
            rng=SEED,
        ).confidence_interval  # fmt: skip
    ends = float(found.low), float(found.high)
    return ends if np.isfinite(ends).all() else (None, None)
