"""What numbers are made of, so that a sum of several knows which of them share their chance.

Of two terms with the same updates the difference is taken update by update (paired); terms of different updates, or of
different data sets, are independent, and what lies between each and its ends adds in squares; of all others nothing is
known, so their ends are taken together.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from leaklab.metrics.statistics import summarise


@dataclass(frozen=True)
class Term:
    """A number that was measured, times a factor.

    Attributes:
        below: from the lower end to the number.
        above: from the number to the upper end.
        origin: names the data behind it; empty where that is not known.
        values: of each update, whose mean the number is; None where they are not published.
    """

    below: float
    above: float
    origin: str = ""
    values: Mapping[Hashable, float] | None = None

    def times(self, factor: float) -> "Term":
        """Return the term of a multiple of the number."""
        gaps = (self.below, self.above) if factor > 0 else (self.above, self.below)
        values = None if self.values is None else {key: factor * value for key, value in self.values.items()}
        return replace(self, below=abs(factor) * gaps[0], above=abs(factor) * gaps[1], values=values)

    def apart_from(self, other: "Term") -> bool:
        """Return whether two terms are surely independent."""
        if self.origin and other.origin and self.origin != other.origin:
            return True
        if self.values is None or other.values is None:
            return False
        return self.values.keys().isdisjoint(other.values)

    def same_updates(self, other: "Term") -> bool:
        """Return whether both are of the same updates of the same data."""
        known = self.values is not None and other.values is not None
        return known and self.origin == other.origin and self.values.keys() == other.values.keys()  # type: ignore[union-attr]

    def paired_with(self, other: "Term") -> "Term":
        """Return the term of the sum, update by update."""
        assert self.values is not None and other.values is not None  # noqa: PT018
        values = {key: value + other.values[key] for key, value in self.values.items()}
        summary = summarise(np.array(list(values.values())))
        reach = math.inf if summary.ci_high is None else summary.ci_high - summary.mean
        return Term(reach, reach, self.origin, values)


def added(terms: Sequence[Term]) -> tuple[Term, ...]:
    """Return the terms of a sum, those of the same updates as one."""
    found: list[Term] = []
    for term in terms:
        place = next((place for place, own in enumerate(found) if own.same_updates(term)), None)
        if place is None:
            found.append(term)
        else:
            found[place] = found[place].paired_with(term)
    return tuple(found)


def reach_of(terms: Sequence[Term]) -> tuple[float, float]:
    """Return how far a sum of terms reaches below and above its number.

    Parts that may share their chance, directly or by way of others, are taken together: their gaps add. Groups that
    are independent of each other add in squares.
    """
    groups: list[list[Term]] = []
    for term in terms:
        tied = [group for group in groups if not all(term.apart_from(own) for own in group)]
        groups = [group for group in groups if group not in tied] + [[term, *(own for group in tied for own in group)]]
    below, above = ([math.fsum(getattr(one, side) for one in group) for group in groups] for side in ("below", "above"))
    return math.hypot(*below), math.hypot(*above)
