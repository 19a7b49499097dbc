"""Numbers with the interval in which they lie, and truth that knows whether it is sure."""

import math
import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from leaklab.report.judge.terms import Term, added, reach_of
from leaklab.report.numbers.words import MissingNumber, NumberMissingError

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
class Singles:
    """The values behind a number, one an update.

    Attributes:
        values: update -> value.
        median: whether the number is their median; else their mean.
    """

    values: Mapping[Hashable, float]
    median: bool = False


@dataclass(frozen=True)
class Estimate:
    """A number and the ends of the interval in which it lies.

    A sum or difference goes by what its numbers share (see ``parts``); any other operation takes all combinations of
    the ends, so an interval is never too short.

    Attributes:
        value: the number.
        low: lower end, ``-inf`` for a number that decides nothing.
        high: upper end.
        parts: what a sum of measured numbers is made of; empty where nothing is known, and for an exact number.
        singles: the values that it summarises; None where they are not published, and of anything computed from it.
        why: why it decides nothing, where that is known.
    """

    value: float
    low: float
    high: float
    parts: tuple[Term, ...] = field(default=(), compare=False, repr=False)
    singles: Singles | None = field(default=None, compare=False, repr=False)
    why: str = field(default="", compare=False, repr=False)

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

    @property
    def terms(self) -> tuple[Term, ...]:
        """The parts of the number; of one of which nothing is known itself."""
        return () if self.is_exact else self.parts or (Term(self.value - self.low, self.high - self.value),)

    def __add__(self, other: Any) -> "Estimate":
        right = estimate(other)
        return _sum(self.value + right.value, (*self.terms, *right.terms), self.why or right.why)

    def __sub__(self, other: Any) -> "Estimate":
        return self + -estimate(other)

    def __mul__(self, other: Any) -> "Estimate":
        factor = estimate(other)
        for one, number in ((self, factor), (factor, self)):
            if one.is_exact and math.isfinite(one.value):
                return number.times(one.value)
        return _combined(self, factor, operator.mul)

    def __truediv__(self, other: Any) -> "Estimate":
        divisor = estimate(other)
        if divisor.is_exact and divisor.value and math.isfinite(1 / divisor.value):
            quotient = _combined(self, divisor, operator.truediv)
            return replace(quotient, parts=tuple(part.times(1 / divisor.value) for part in self.terms), why=self.why)
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
        return self.times(-1.0)

    def __abs__(self) -> "Estimate":
        if self.low > 0 or self.high < 0:
            return self.times(math.copysign(1.0, self.value))
        return Estimate(abs(self.value), 0.0, max(abs(self.low), abs(self.high)), why=self.why)

    def times(self, factor: float) -> "Estimate":
        """Return a multiple of the number, which shares its chance with all that it shared before."""
        if factor == 0:
            return Estimate.exact(0.0)
        low, high = sorted((factor * self.low, factor * self.high))
        return Estimate(factor * self.value, low, high, tuple(part.times(factor) for part in self.terms), why=self.why)


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
    """Return ``take`` of a list: of the values, of the lower and of the upper ends (median, max, ...)."""
    known = [estimate(value) for value in values]
    if not known:
        raise ValueError("it has no values")
    value, low, high = (take([getattr(one, name) for one in known]) for name in ("value", "low", "high"))
    return Estimate(value, low, high, why=_why(known))


def mean_of(values: Sequence[Any]) -> Estimate:
    """Return the mean of a list by what its numbers share: the same updates, independent ones, or nothing known."""
    known = [estimate(value) for value in values]
    if not known:
        raise ValueError("it has no values")
    parts = tuple(part.times(1 / len(known)) for one in known for part in one.terms)
    return _sum(fmean(one.value for one in known), parts, _why(known))


def sum_of(values: Sequence[Any]) -> Estimate:
    """Return the sum of a list by what its numbers share, see ``mean_of``."""
    known = [estimate(value) for value in values]
    return _sum(sum(one.value for one in known), tuple(part for one in known for part in one.terms), _why(known))


def _why(known: Sequence[Estimate]) -> str:
    return next((one.why for one in known if one.why), "")


def _sum(value: float, terms: tuple[Term, ...], why: str) -> Estimate:
    if math.isnan(value):
        raise NumberMissingError("two numbers that are not there are compared with each other")
    parts = added(terms)
    below, above = reach_of(parts)
    if math.isinf(value) and not math.isfinite(below + above):
        return Estimate.open(value)
    return Estimate(value, value - below, value + above, parts, why=why)


def _combined(left: Estimate, other: Any, operation: Operation) -> Estimate:
    right = estimate(other)
    ends_of = [(one.low, one.high) for one in (left, right)]
    value = operation(left.value, right.value)
    if math.isnan(value):
        raise NumberMissingError("two numbers that are not there are compared with each other")
    ends = [_end(operation, one, two) for one in ends_of[0] for two in ends_of[1]]
    if any(math.isnan(end) for end in ends):
        return Estimate.open(value)
    return Estimate(value, min(value, *ends), max(value, *ends), why=left.why or right.why)


def _end(operation: Operation, left: float, right: float) -> float:
    if operation is operator.mul and 0 in (left, right):
        return 0.0
    return operation(left, right)
