"""Numbers with the interval in which they lie, and truth that knows whether it is sure."""

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from leaklab.report.numbers.missing import MissingNumber, NumberMissingError

Operation = Callable[[float, float], float]


@dataclass(frozen=True)
class Truth:
    """What a comparison gives where numbers have intervals.

    Attributes:
        point: what the numbers themselves say.
        surely: whether every value of the intervals says true.
        possibly: whether some value of the intervals does.
    """

    point: bool
    surely: bool
    possibly: bool

    @classmethod
    def of(cls, sure: bool) -> "Truth":
        """Return a truth without doubt."""
        return cls(sure, sure, sure)

    @property
    def decided(self) -> bool:
        """Whether the intervals agree."""
        return self.surely == self.possibly

    def __bool__(self) -> bool:
        raise TypeError("a comparison of measured numbers cannot be taken as a plain true or false")

    def __invert__(self) -> "Truth":
        return Truth(not self.point, not self.possibly, not self.surely)


@dataclass(frozen=True)
class Estimate:
    """A number and the ends of the interval in which it lies.

    An operation takes all combinations of the ends, so an interval is never too short, whatever the numbers share.
    Only two numbers of one curve are taken low with low and high with high: they come from the same runs.

    Attributes:
        value: the number.
        low: lower end, ``-inf`` for a number that decides nothing.
        high: upper end.
        curve: names the curve that the number is a point of; empty for any other number.
    """

    value: float
    low: float
    high: float
    curve: str = ""

    @classmethod
    def exact(cls, value: float) -> "Estimate":
        """Return a number without doubt."""
        return cls(value, value, value)

    @classmethod
    def open(cls, value: float) -> "Estimate":
        """Return a number that decides nothing, such as that of a single run."""
        return cls(value, -math.inf, math.inf)

    @property
    def is_exact(self) -> bool:
        """Whether both ends are the number itself."""
        return self.low == self.high

    @property
    def is_open(self) -> bool:
        """Whether nothing bounds the number, on one side at least."""
        return not self.is_exact and (math.isinf(self.low) or math.isinf(self.high))

    def __add__(self, other: Any) -> "Estimate":
        return _combined(self, other, operator.add)

    def __sub__(self, other: Any) -> "Estimate":
        return _combined(self, other, operator.sub)

    def __mul__(self, other: Any) -> "Estimate":
        return _combined(self, other, operator.mul)

    def __truediv__(self, other: Any) -> "Estimate":
        divisor = estimate(other)
        if divisor.low <= 0 <= divisor.high and not divisor.is_exact:
            return Estimate.open(self.value / divisor.value)
        return _combined(self, divisor, operator.truediv)

    def __radd__(self, other: Any) -> "Estimate":
        return estimate(other) + self

    def __rsub__(self, other: Any) -> "Estimate":
        return estimate(other) - self

    def __rmul__(self, other: Any) -> "Estimate":
        return estimate(other) * self

    def __rtruediv__(self, other: Any) -> "Estimate":
        return estimate(other) / self

    def __neg__(self) -> "Estimate":
        return Estimate(-self.value, -self.high, -self.low)

    def __abs__(self) -> "Estimate":
        ends = abs(self.low), abs(self.high)
        low = 0.0 if self.low <= 0 <= self.high else min(ends)
        return Estimate(abs(self.value), low, max(ends))


def estimate(value: Any) -> Estimate:
    """Return anything that counts as a number as an ``Estimate``.

    Raises:
        NumberMissingError: it stands where a number should be.
        TypeError: it is no number.
    """
    if isinstance(value, Estimate):
        return value
    if isinstance(value, MissingNumber):
        raise value.error
    if isinstance(value, Truth):
        return Estimate(float(value.point), float(value.surely), float(value.possibly))
    if isinstance(value, bool | int | float):
        return Estimate.exact(float(value))
    raise TypeError(f"{value!r} is no number")


def monotone(values: Sequence[Any], take: Callable[[list[float]], float]) -> Estimate:
    """Return ``take`` of a list: of the values, of the lower and of the upper ends (mean, median, max, ...)."""
    known = [estimate(value) for value in values]
    if not known:
        raise ValueError("it has no values")
    value, low, high = (take([getattr(one, name) for one in known]) for name in ("value", "low", "high"))
    return Estimate(value, low, high, shared_curve(known))


def shared_curve(values: Sequence[Estimate]) -> str:
    """Return the curve that all values with an interval are points of; empty where they are not of one."""
    curves = {value.curve for value in values if not value.is_exact or value.curve}
    return curves.pop() if len(curves) == 1 else ""


def _combined(left: Estimate, other: Any, operation: Operation) -> Estimate:
    right = estimate(other)
    curve = shared_curve((left, right))
    pairs = [(left.low, right.low), (left.high, right.high)]
    if not curve:
        pairs += [(left.low, right.high), (left.high, right.low)]
    value = operation(left.value, right.value)
    if math.isnan(value):
        raise NumberMissingError("two numbers that are not there are compared with each other")
    ends = [_end(operation, *pair) for pair in pairs]
    if any(math.isnan(end) for end in ends):
        return Estimate.open(value)
    return Estimate(value, min(value, *ends), max(value, *ends), curve)


def _end(operation: Operation, left: float, right: float) -> float:
    if operation is operator.mul and 0 in (left, right):
        return 0.0
    return operation(left, right)
