"""Comparisons of numbers with intervals: what was needed, what was found, and by how much."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from leaklab.report.judge.estimates import Estimate, Truth, estimate
from leaklab.report.numbers.missing import MissingNumber

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
