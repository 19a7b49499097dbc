"""The interval of a number of a result table, from what the table says about it and nothing else."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from leaklab.metrics.intervals import SLACK, fractions_interval, is_share, outcomes_interval
from leaklab.metrics.statistics import LEAST_CLUSTERS
from leaklab.report.judge.estimates import Estimate, Truth, estimate
from leaklab.report.numbers.results import DIFFERENCE, UNMARKED, ResultRow, summarised
from leaklab.report.numbers.words import MissingNumber

OUTSIDE = 0.025
"""Share of chance beyond either end of a 95 % interval."""
WHOLE = "rounds"
CAPPED = "capped"
DATASET = "dataset"
MEDIAN = "_median"
ALL_EQUAL = "all its differences are equal, which is no interval"
TOO_WIDE = "the interval of its difference of shares leaves -1 to 1"


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
    least six independent updates are needed, of a training two seeds. A share has its exact interval; any other number
    that of the table, and where it has none, it reaches as far as Student's t says from ``std`` and the number of
    clusters. Of a difference of shares an interval that has no width or leaves -1 to 1 is none.
    """
    if not has_number(row):
        return None
    if row.value is None:
        return Measured(Estimate.exact(_worst(row)))
    if row.n is None:
        return Measured(Estimate.exact(row.value))
    doubt = _doubt(row)
    number = Estimate.open(row.value) if doubt else _interval(row, row.value, row.clusters or row.n)
    doubt = doubt or _doubt_of_difference(row, number)
    return Measured(Estimate.open(row.value), doubt) if doubt else Measured(_of_data(row, number))


def plain_number(row: ResultRow) -> float | None:
    """Return the number of ``measured``, for who asks for no interval: that takes longer than all else."""
    if not has_number(row):
        return None
    return _worst(row) if row.value is None else row.value


def has_number(row: ResultRow) -> bool:
    """Return whether a row has a number to compare; a capped cell has one, worse than all others."""
    return row.value is not None or (row.note.startswith(CAPPED) and bool(row.better))


def spread(std: float, n: int) -> Estimate:
    """Return a standard deviation with its 95 % interval, from the chi-squared law with n - 1 degrees of freedom."""
    from scipy.special import chdtri  # slow to import

    low, high = (math.sqrt((n - 1) / float(chdtri(n - 1, tail))) for tail in (OUTSIDE, 1 - OUTSIDE))
    return Estimate(std, std * low, std * high)


def share(holding: int, cases: int) -> Estimate:
    """Return a share of cases with its exact 95 % interval; fewer than six cases decide nothing."""
    return exact_share(holding / cases, cases)


def exact_share(value: float, clusters: int, std: float | None = None) -> Estimate:
    """Return a share of outcomes with a 95 % interval that covers, whatever the share is; never a point.

    Clopper and Pearson's where each cluster's own outcome is 0 or 1; else the one for any values in [0, 1].

    Args:
        value: mean over the clusters, in [0, 1].
        clusters: number of independent updates; below six nothing is decided.
        std: sample standard deviation over the clusters. Of values in [0, 1] with a given mean only zeros and ones
            have the largest, which tells them from fractions; None: a whole sum is taken as one of zeros and ones.

    Raises:
        ValueError: the value is no share.
    """
    hits = round(value * clusters)
    whole = abs(value * clusters - hits) <= SLACK * clusters
    if std is not None and clusters > 1:
        largest = math.sqrt(max(0.0, value * (1 - value)) * clusters / (clusters - 1))
        whole = whole and math.isclose(std, largest, abs_tol=1e-6)
    low, high = outcomes_interval(hits, clusters) if whole else fractions_interval(value * clusters, clusters)
    return Estimate.open(value) if low is None or high is None else Estimate(value, min(low, value), max(high, value))


def _of_share(row: ResultRow) -> bool:
    """Return whether a number is a share over updates."""
    return is_share(summarised(row.metric)) and not row.metric.endswith(MEDIAN) and DIFFERENCE not in row.row


def _worst(row: ResultRow) -> float:
    return math.inf if row.better == "lower" else -math.inf


def _doubt(row: ResultRow) -> str:
    attack, updates = row.attacker != UNMARKED or bool(row.aside), row.clusters or 0
    if attack and updates < LEAST_CLUSTERS:
        return f"{updates} independent update{'' if updates == 1 else 's'}, {LEAST_CLUSTERS} are needed"
    if not attack and (row.clusters or row.n or 0) < 2:
        return "one seed"
    return "" if row.std is not None or (row.ci_low is not None and row.ci_high is not None) else "no interval"


def _doubt_of_difference(row: ResultRow, number: Estimate) -> str:
    """Return why the interval of a difference of two shares is none; empty for any other number."""
    if DIFFERENCE not in row.row or not is_share(summarised(row.metric)):
        return ""
    if number.is_exact:
        return ALL_EQUAL
    return "" if number.low >= -1 and number.high <= 1 else TOO_WIDE


def _interval(row: ResultRow, value: float, n: int) -> Estimate:
    if _of_share(row):
        return exact_share(value, n, row.std)
    if row.ci_low is not None and row.ci_high is not None:
        low, high = row.ci_low, row.ci_high
    else:
        from scipy.special import stdtrit  # slow to import

        reach = float(stdtrit(n - 1, 1 - OUTSIDE)) * (row.std or 0.0) / math.sqrt(n)
        low, high = value - reach, value + reach
    if row.unit == WHOLE:
        low, high = math.ceil(low), math.floor(high)
    return Estimate(value, min(low, value), max(high, value))


def _of_data(row: ResultRow, number: Estimate) -> Estimate:
    """Return a number with the name of the data that it was measured on."""
    origin = str(row.row.get(DATASET, ""))
    return replace(number, parts=tuple(replace(part, origin=origin) for part in number.terms))


# Comparisons of numbers with intervals: what was needed, what was found, and by how much.

RELATIONS = {"<": "below", "<=": "at most", ">": "above", ">=": "at least", "==": "exactly", "!=": "other than"}
TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


@dataclass(frozen=True)
class Margin:
    """The two sides of a comparison of numbers.

    Attributes:
        relation: what was asked, in words: ``at most``.
        needed: the side that it is measured against.
        found: the side that is measured.
        distance: how far ``found`` lies on the side that was asked for; negative on the other. The comparison is
            decided where this interval does not hold zero.
    """

    relation: str
    needed: Estimate
    found: Estimate
    distance: Estimate

    @property
    def relative(self) -> float:
        """The distance as a part of the larger side, by which comparisons of several units are ranked."""
        size = max(abs(self.needed.value), abs(self.found.value))
        return self.distance.value / size if size else 0.0


@dataclass(frozen=True)
class Comparison:
    """A comparison that was made; without a margin where its sides are no numbers."""

    truth: Truth
    margin: Margin | None = None


def compare(symbol: str, left: Any, right: Any) -> Comparison:
    """Compare two values by ``< <= > >= == != in`` or ``not in``.

    Numbers give a margin. By convention a check says what was found first, unless that side is a plain number.

    Raises:
        NumberMissingError: a side is missing.
        TypeError: the sides do not go together.
    """
    if symbol in ("in", "not in"):
        inside = _among(left, right)
        return Comparison(Truth.of(inside == (symbol == "in")))
    if not (_is_number(left) and _is_number(right)):
        return Comparison(Truth.of(_equal(symbol, left, right)))
    if _is_plain(left) and not _is_plain(right):
        left, right, symbol = right, left, TURNED[symbol]
    found, needed = estimate(left), estimate(right)
    distance = -abs(found - needed) if symbol in ("==", "!=") else _gain(symbol, found, needed)
    margin = Margin(RELATIONS[symbol], needed, found, -distance if symbol == "!=" else distance)
    return Comparison(TRUTHS[symbol](found, needed, distance), margin)


def _gain(symbol: str, found: Estimate, needed: Estimate) -> Estimate:
    return needed - found if symbol in ("<", "<=") else found - needed


def _strict(found: Estimate, needed: Estimate, distance: Estimate) -> Truth:
    return Truth(distance.value > 0, distance.low > 0, distance.high > 0)


def _weak(found: Estimate, needed: Estimate, distance: Estimate) -> Truth:
    return Truth(distance.value >= 0, distance.low >= 0, distance.high >= 0)


def _same(found: Estimate, needed: Estimate, distance: Estimate) -> Truth:
    alike = found.value == needed.value
    apart = found.low > needed.high or needed.low > found.high
    return Truth(alike, alike and found.is_exact and needed.is_exact, not apart)


def _other(found: Estimate, needed: Estimate, distance: Estimate) -> Truth:
    return ~_same(found, needed, distance)


TRUTHS: dict[str, Callable[[Estimate, Estimate, Estimate], Truth]] = {
    "<": _strict, ">": _strict, "<=": _weak, ">=": _weak, "==": _same, "!=": _other,
}  # fmt: skip


def _is_plain(value: Any) -> bool:
    return not isinstance(value, Estimate | Truth)


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float | Estimate | Truth | MissingNumber)


def _equal(symbol: str, left: Any, right: Any) -> bool:
    if symbol not in ("==", "!="):
        raise TypeError(f"{left!r} {symbol} {right!r}")
    if type(left) is not type(right):
        raise TypeError(f"{left!r} and {right!r} are never equal")
    _refuse_measured(left, right)
    return bool(left == right) == (symbol == "==")


def _among(left: Any, right: Any) -> bool:
    _refuse_measured(left, *right)
    return left in right


def _refuse_measured(*values: Any) -> None:
    """Refuse measured numbers inside tuples and lists, where Python would compare them without their intervals."""
    for value in values:
        if isinstance(value, Estimate | Truth):
            raise TypeError(f"the measured number {value!r} can only be compared with a number")
        if isinstance(value, MissingNumber):
            raise value.error
        if isinstance(value, tuple | list | set):
            _refuse_measured(*value)
