"""Intervals that hold their level on what the tables are really made of: 0/1 outcomes, skewed values, ranks.

Student's t is right for values that are nearly normal. On the outcomes of six to forty updates it is not: of equal
ones it has no width, and at a share of 10 % and eight updates its "95 %" interval covers 57 %. The coverage of each
function here is computed in ``tests/metrics/test_coverage.py``.
"""

import math

from leaklab.metrics.statistics import LEAST_CLUSTERS, LEVEL

Ends = tuple[float, float] | tuple[None, None]
OUTSIDE = (1 - LEVEL) / 2
"""Share of chance beyond either end."""
SLACK = 1e-9
"""What rounding may add to a sum of outcomes."""


def outcomes_interval(hits: int, clusters: int) -> Ends:
    """Return Clopper and Pearson's 95 % interval of the share of hits among independent 0/1 outcomes.

    It covers at least 95 % whatever the share is (Biometrika 26, 1934), lies in [0, 1] and never is a point.

    Args:
        hits: in [0, clusters].
        clusters: number of outcomes; None is returned below ``LEAST_CLUSTERS``.

    Raises:
        ValueError: more hits than outcomes, or fewer than none.
    """
    if not 0 <= hits <= clusters:
        raise ValueError(f"{hits} of {clusters} outcomes is no share")
    if clusters < LEAST_CLUSTERS:
        return None, None
    from scipy.stats import binomtest  # slow to import

    ends = binomtest(hits, clusters).proportion_ci(LEVEL, method="exact")
    return float(ends.low), float(ends.high)


def fractions_interval(total: float, clusters: int) -> Ends:
    """Return a 95 % interval of the mean of independent values in [0, 1], from their sum alone.

    A batch with some labels right is no 0/1 outcome, and its law is not known. Of any values in [0, 1] with mean p
    the sum S of n obeys ``P(S <= s) <= exp(-n h)``, where h is the relative entropy of Bernoulli laws with means s/n
    and p (Hoeffding 1963), and ``P(S <= s) <= e P(Bin(n, p) <= ceil(s))`` (Bentkus 2004). An end is where the smaller
    of the two is 2.5 %, so the interval covers at least 95 %. Of sums 0 and n it is Clopper and Pearson's.

    Args:
        total: sum of the values, in [0, clusters].
        clusters: number of values; None is returned below ``LEAST_CLUSTERS``.

    Raises:
        ValueError: the sum lies outside of [0, clusters].
    """
    if not -SLACK <= total <= clusters + SLACK:
        raise ValueError(f"{total:g} is no sum of {clusters} values in [0, 1]")
    if clusters < LEAST_CLUSTERS:
        return None, None
    return 1 - _upper_end(clusters - total, clusters), _upper_end(total, clusters)


def _upper_end(total: float, clusters: int) -> float:
    """Return the largest mean under which a sum that small still has a chance of ``OUTSIDE``."""
    from scipy.optimize import brentq  # slow to import
    from scipy.stats import binom

    part, whole = min(max(total / clusters, 0.0), 1.0), math.ceil(total - SLACK)

    def excess(mean: float) -> float:
        entropy = _term(part, mean) + _term(1 - part, 1 - mean)
        return min(math.exp(-clusters * entropy), math.e * float(binom.cdf(whole, clusters, mean))) - OUTSIDE

    return 1.0 if part == 1 else float(brentq(excess, part, 1 - 1e-15))


def _term(part: float, mean: float) -> float:
    return part * math.log(part / mean) if part > 0 else 0.0
