"""The interval of a number of a result table, from what the table says about it and nothing else."""

import math
from dataclasses import dataclass
from statistics import NormalDist

from leaklab.metrics.statistics import LEAST_CLUSTERS
from leaklab.report.judge.estimates import Estimate
from leaklab.report.numbers.results import DIFFERENCE, INDEX, UNMARKED, ResultRow, identity, summarised

OUTSIDE = 0.025
"""Share of chance beyond either end of a 95 % interval."""
WHOLE = "rounds"
CAPPED = "capped"
SHARES = (
    *("certified", "exact_share", "false_certificate", "label_correct", "label_recovery", "named_by_gradient"),
    *("named_image", "position_recovery", "rouge_l", "token_recovery"),
)
"""Metrics that are a share of images, labels or words: between 0 and 1."""
NOT_WHOLE = "the interval of its share leaves 0 to 1, or has no width, and it is no count of updates"
ALL_EQUAL = "all its differences are equal, which is no interval"
NEAR = 1e-6
"""How far from a whole number a count may lie: shares are written with ten digits."""


@dataclass(frozen=True)
class Measured:
    """A number with its interval.

    Attributes:
        number: the number.
        doubt: why it decides nothing, e.g. ``one seed``; empty where it has an interval.
    """

    number: Estimate
    doubt: str = ""


def measured(row: ResultRow) -> Measured | None:
    """Return the number of a row with its 95 % interval; None where it has none.

    A capped cell is worse than all others. A number without ``n`` is no sample and is taken as it is. Of an attack at
    least six independent updates are needed, of a training two seeds. The interval is that of the table; where it has
    none, it reaches as far as Student's t says from ``std`` and the number of clusters. An interval of a share that has
    no width or leaves 0 to 1 is none: ``exact_share`` gives it.
    """
    if not has_number(row):
        return None
    if row.value is None:
        return Measured(Estimate.exact(_worst(row)))
    if row.n is None:
        return Measured(Estimate.exact(row.value))
    doubt = _doubt(row)
    if doubt:
        return Measured(Estimate.open(row.value), doubt)
    if is_share(row) and not _credible(row):
        return _of_share(row, row.value, row.clusters or row.n)
    return Measured(_named(row, _interval(row, row.value, row.clusters or row.n)))


def has_number(row: ResultRow) -> bool:
    """Return whether a row has a number to compare; a capped cell has one, worse than all others."""
    return row.value is not None or (row.note.startswith(CAPPED) and bool(row.better))


def spread(std: float, n: int) -> Estimate:
    """Return a standard deviation with its 95 % interval, from the chi-squared law with n - 1 degrees of freedom."""
    from scipy.special import chdtri  # slow to import

    low, high = (math.sqrt((n - 1) / float(chdtri(n - 1, tail))) for tail in (OUTSIDE, 1 - OUTSIDE))
    return Estimate(std, std * low, std * high)


def share(holding: int, cases: int) -> Estimate:
    """Return a share with its 95 % interval after Wilson; fewer than six cases decide nothing."""
    if cases < LEAST_CLUSTERS:
        return Estimate.open(holding / cases)
    z, part = NormalDist().inv_cdf(1 - OUTSIDE), holding / cases
    middle = part + z * z / (2 * cases)
    reach = z * math.sqrt(part * (1 - part) / cases + z * z / (4 * cases * cases))
    low, high = ((middle + sign * reach) / (1 + z * z / cases) for sign in (-1, 1))
    return Estimate(part, max(0.0, low), min(1.0, high))


def exact_share(value: float, clusters: int) -> Estimate | None:
    """Return a share of yes and no with the exact 95 % interval (Clopper and Pearson, 1934).

    Args:
        value: the share, from 0 to 1.
        clusters: how many independent outcomes it is of, at least one.

    Returns:
        None where the share is no whole number of them: its outcomes are then no yes or no.
    """
    from scipy.special import betaincinv  # slow to import

    count = round(value * clusters)
    if abs(value * clusters - count) > NEAR * clusters or not 0 <= count <= clusters:
        return None
    low = float(betaincinv(count, clusters - count + 1, OUTSIDE)) if count else 0.0
    high = float(betaincinv(count + 1, clusters - count, 1 - OUTSIDE)) if count < clusters else 1.0
    return Estimate(value, min(low, value), max(high, value))


def is_share(row: ResultRow) -> bool:
    """Return whether a number is a share, or a difference of two."""
    return summarised(row.metric) in SHARES


def sign_test(cases: int) -> int | None:
    """Return how many of so many cases have to agree before chance (one half each) is below 5 %; None: even all."""
    ways = 0
    for needed in range(cases, -1, -1):
        ways += math.comb(cases, needed)
        if ways > OUTSIDE * 2**cases:
            return needed + 1 if needed < cases else None
    return None


def _worst(row: ResultRow) -> float:
    return math.inf if row.better == "lower" else -math.inf


def _doubt(row: ResultRow) -> str:
    attack, updates = row.attacker != UNMARKED or bool(row.aside), row.clusters or 0
    if attack and updates < LEAST_CLUSTERS:
        return f"{updates} independent update{'' if updates == 1 else 's'}, {LEAST_CLUSTERS} are needed"
    if not attack and (row.clusters or row.n or 0) < 2:
        return "one seed"
    return "" if row.std is not None or (row.ci_low is not None and row.ci_high is not None) else "no interval"


def _credible(row: ResultRow) -> bool:
    """Return whether the interval of a share, or of a difference of shares, has a width and lies where they can."""
    interval = _interval(row, row.value or 0.0, row.clusters or row.n or 0)
    lowest = -1.0 if DIFFERENCE in row.row else 0.0
    return interval.low < interval.high and interval.low >= lowest and interval.high <= 1.0


def _of_share(row: ResultRow, value: float, clusters: int) -> Measured:
    if DIFFERENCE in row.row:
        return Measured(Estimate.open(value), ALL_EQUAL)
    exact = exact_share(value, clusters)
    return Measured(exact) if exact else Measured(Estimate.open(value), NOT_WHOLE)


def _interval(row: ResultRow, value: float, n: int) -> Estimate:
    if row.ci_low is not None and row.ci_high is not None:
        low, high = row.ci_low, row.ci_high
    else:
        from scipy.special import stdtrit  # slow to import

        reach = float(stdtrit(n - 1, 1 - OUTSIDE)) * (row.std or 0.0) / math.sqrt(n)
        low, high = value - reach, value + reach
    if row.unit == WHOLE:
        low, high = math.ceil(low), math.floor(high)
    return Estimate(value, min(low, value), max(high, value))


def _named(row: ResultRow, number: Estimate) -> Estimate:
    """Return a point of a curve with the curve's name."""
    if not row.is_point:
        return number
    rest = {key: value for key, value in row.row.items() if key != INDEX}
    curve = " ".join((row.item, row.metric, row.attacker, row.variant, identity(rest)))
    return Estimate(number.value, number.low, number.high, curve)
