"""Intervals that hold their level on what the tables are really made of: 0/1 outcomes, fractions, ranks, sums of means.

Student's t is right for values that are nearly normal. On the outcomes of six to forty updates it is not: of equal
ones it has no width, and at a share of 10 % and eight updates its "95 %" interval covers 57 %. The coverage of each
function here is computed in ``tests/metrics/test_coverage.py``. Of means of skewed values Student's interval stays: it
covers more than the bootstrap's (BCa) at every number of updates from 6 to 40 that was tried there.
"""

import math
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leaklab.metrics.statistics import LEAST_CLUSTERS, LEVEL, Summary, by_cluster, paired_difference, summarise

Ends = tuple[float, float] | tuple[None, None]
NO_ENDS: tuple[None, None] = (None, None)
SLACK = 1e-9
"""What rounding may add to a sum of outcomes."""
ALMOST = 1 - 1e-12
"""The largest mean short of 1 that a share's end is sought up to."""
RESAMPLES = 2000
SEED = 0
OUTCOMES = frozenset(
    {"label_correct", "exact_share", "certified", "false_certificate", "named_image", "named_by_gradient"}
)
"""Metrics that are 0 or 1 of each image; their means are shares."""
FRACTIONS = frozenset(
    {"token_recovery", "position_recovery", "rouge_1", "rouge_2", "rouge_l", "sentences_exact", "sentences_certified"}
)
"""Metrics of a sentence or of a batch of them in [0, 1], where 0 and 1 are common."""
OTHER_NAMES = frozenset({"label_recovery"})
"""What tables call one of these."""


def is_share(metric: str) -> bool:
    """Return whether the mean of a metric is a share, by the metric's name in the scores or in a table."""
    return metric in OUTCOMES | FRACTIONS | OTHER_NAMES


def summarise_for(metric: str, values: ArrayLike, clusters: Sequence[Hashable] | None = None) -> Summary:
    """Summarise the values of a metric: a share as one, anything else as ``summarise`` does.

    Raises:
        ValueError: as ``summarise``, or a value of a share lies outside of [0, 1].
    """
    return summarise_share(values, clusters) if is_share(metric) else summarise(values, clusters)


def paired_difference_for(
    metric: str, first: ArrayLike, second: ArrayLike, clusters: Sequence[Hashable] | None = None
) -> Summary:
    """Summarise ``first - second`` value by value: of a share as one, else as ``paired_difference`` does.

    The difference of two shares is the share of what only the first has less that of what only the second has. Each
    has an interval at 97.5 %, so that both together hold at 95 % (Bonferroni).

    Raises:
        ValueError: as ``paired_difference``, or a value of a share lies outside of [0, 1].
    """
    summary = paired_difference(first, second, clusters)
    if not is_share(metric) or summary.clusters < LEAST_CLUSTERS:
        return summary
    sides = [_means_in_range(values, clusters) for values in (first, second)]
    apart = sides[0] - sides[1]
    level = (1 + LEVEL) / 2
    more, fewer = (_share_interval(np.clip(sign * apart, 0, 1), level) for sign in (1, -1))
    return replace(summary, ci_low=more[0] - fewer[1], ci_high=more[1] - fewer[0])


def summarise_share(values: ArrayLike, clusters: Sequence[Hashable] | None = None) -> Summary:
    """Summarise values in [0, 1] with an interval of their share that lies in [0, 1] and never is a point.

    Where each cluster's mean is 0 or 1 it is ``outcomes_interval``, else ``fractions_interval``. All else is as
    ``summarise`` has it.

    Args:
        values: one-dimensional, in [0, 1].
        clusters: one key per value; values with one key are of one cluster, as their outcomes are not independent.
            None: every value is its own.

    Raises:
        ValueError: as ``summarise``, or a value lies outside of [0, 1].
    """
    summary, means = summarise(values, clusters), _means_in_range(values, clusters)
    low, high = _share_interval(means, LEVEL) if summary.clusters >= LEAST_CLUSTERS else NO_ENDS
    return replace(summary, ci_low=low, ci_high=high)


def outcomes_interval(hits: int, clusters: int, level: float = LEVEL) -> Ends:
    """Return Clopper and Pearson's interval of the share of hits among independent 0/1 outcomes.

    It covers at least its level whatever the share is (Biometrika 26, 1934), lies in [0, 1] and never is a point.

    Args:
        hits: in [0, clusters].
        clusters: number of outcomes; nothing is returned below ``LEAST_CLUSTERS``.
        level: of the interval, in (0, 1).

    Raises:
        ValueError: more hits than outcomes, or fewer than none.
    """
    if not 0 <= hits <= clusters:
        raise ValueError(f"{hits} of {clusters} outcomes is no share")
    if clusters < LEAST_CLUSTERS:
        return NO_ENDS
    from scipy.special import betaincinv  # slow to import

    outside = (1 - level) / 2
    low = float(betaincinv(hits, clusters - hits + 1, outside)) if hits else 0.0
    return low, float(betaincinv(hits + 1, clusters - hits, 1 - outside)) if hits < clusters else 1.0


def fractions_interval(total: float, clusters: int, level: float = LEVEL) -> Ends:
    """Return an interval of the mean of independent values in [0, 1], from their sum alone.

    A batch with some labels right is no 0/1 outcome, and its law is not known. Of any values in [0, 1] with mean p
    the sum S of n obeys ``P(S <= s) <= exp(-n h)``, where h is the relative entropy of Bernoulli laws with means s/n
    and p (Hoeffding 1963), and ``P(S <= s) <= e P(Bin(n, p) <= ceil(s))`` (Bentkus 2004). An end is where the smaller
    of the two is half of what the level leaves, so the interval covers at least its level. Of sums 0 and n it is
    Clopper and Pearson's.

    Args:
        total: sum of the values, in [0, clusters].
        clusters: number of values; nothing is returned below ``LEAST_CLUSTERS``.
        level: of the interval, in (0, 1).

    Raises:
        ValueError: the sum lies outside of [0, clusters].
    """
    if not -SLACK * clusters <= total <= (1 + SLACK) * clusters:
        raise ValueError(f"{total:g} is no sum of {clusters} values in [0, 1]")
    if clusters < LEAST_CLUSTERS:
        return NO_ENDS
    outside = (1 - level) / 2
    return 1 - _upper_end(clusters - total, clusters, outside), _upper_end(total, clusters, outside)


def rank_interval(
    samples: Sequence[ArrayLike], correlation: Callable[..., NDArray[np.float64]] | None = None
) -> tuple[Ends, str]:
    """Return the bootstrap's 95 % interval (BCa) of a rank correlation, and why there is none.

    Args:
        samples: each [K], one value per cluster, the same clusters in the same order. Clusters are drawn together.
        correlation: of resampled samples, each [*, K], over the last axis; None: Spearman's of two samples.

    Returns:
        The ends, within [-1, 1], and an empty word; or no ends, and the reason: too few clusters, a constant series,
        resamples that all agree (six pairs in one order say little about the next).

    Raises:
        ValueError: the samples are not of the same clusters.
    """
    values = [np.asarray(one, dtype=np.float64) for one in samples]
    if any(one.ndim != 1 or one.shape != values[0].shape for one in values):
        raise ValueError("a rank correlation needs samples of the same clusters")
    if values[0].size < LEAST_CLUSTERS:
        return NO_ENDS, f"{values[0].size} pairs, {LEAST_CLUSTERS} are needed"
    if correlation is None and any(np.ptp(one) == 0 for one in values):
        return NO_ENDS, "a constant series has no ranks"
    from scipy import stats  # slow to import

    with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        found = stats.bootstrap(
            values, correlation or ranks_together, paired=True, vectorized=True, n_resamples=RESAMPLES,
            confidence_level=LEVEL, method="BCa", rng=SEED,
        )  # fmt: skip
    low, high = found.confidence_interval
    if not math.isfinite(low + high):  # of a correlation at its end there is no bias to correct: percentiles
        known = found.bootstrap_distribution[np.isfinite(found.bootstrap_distribution)]
        low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) if known.size else (0.0, 0.0)
    if low == high:
        return NO_ENDS, "resampled, it does not vary"
    return (max(float(low), -1.0), min(float(high), 1.0)), ""


def ranks_together(first: ArrayLike, second: ArrayLike, axis: int = -1) -> NDArray[np.float64]:
    """Return Spearman's rank correlation along an axis; NaN where a series is constant."""
    from scipy.stats import rankdata  # slow to import

    x, y = (rankdata(one, axis=axis) for one in (first, second))
    x, y = (one - one.mean(axis=axis, keepdims=True) for one in (x, y))
    with np.errstate(divide="ignore", invalid="ignore"):
        found: NDArray[np.float64] = (x * y).sum(axis) / np.sqrt((x * x).sum(axis) * (y * y).sum(axis))
    return found


def _means_in_range(values: ArrayLike, clusters: Sequence[Hashable] | None) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if array.min() < 0 or array.max() > 1:
        raise ValueError(f"shares lie in [0, 1], not in [{array.min():g}, {array.max():g}]")
    return np.array([own.mean() for own in by_cluster(array, clusters).values()])


def _share_interval(means: NDArray[np.float64], level: float) -> tuple[float, float]:
    whole = np.isin(means, (0.0, 1.0)).all()
    total = math.fsum(means)
    low, high = (
        outcomes_interval(round(total), means.size, level) if whole else fractions_interval(total, means.size, level)
    )
    assert low is not None and high is not None  # noqa: PT018 (callers have enough clusters)
    return low, high


def _upper_end(total: float, clusters: int, outside: float) -> float:
    """Return the largest mean under which a sum that small still has a chance of ``outside``."""
    from scipy.optimize import brentq  # slow to import
    from scipy.special import bdtr

    part, whole = min(max(total / clusters, 0.0), 1.0), math.ceil(total - SLACK * clusters)

    def excess(mean: float) -> float:
        entropy = _term(part, mean) + _term(1 - part, 1 - mean)
        return min(math.exp(-clusters * entropy), math.e * float(bdtr(whole, clusters, mean))) - outside

    # nearly all of the largest sum: under any mean short of 1 a sum that small has more of a chance
    return 1.0 if part > 1 - SLACK or excess(ALMOST) > 0 else float(brentq(excess, part, ALMOST))


def _term(part: float, mean: float) -> float:
    return part * math.log(part / mean) if part > 0 else 0.0
