"""The line of a verdict that people read: what was needed, what was found, and by how much."""

import math
import re

from leaklab.report.judge.cases import Case, Outcome
from leaklab.report.judge.comparisons import Margin
from leaklab.report.judge.estimates import Estimate
from leaklab.report.judge.verdicts import Sides

UNIT = re.compile(r"\s*\[([^\]]*)\]$")
DIFFERENCES = {"share": "points", "%": "points"}
"""Unit of a difference of two such numbers."""
SINGULAR = {"points": "point", "rounds": "round"}


def measured_line(subject: str, outcome: Outcome) -> str:
    """Return ``<subject> (<case>): needed: at most 52 %; found: 100 %; margin: -48 points``.

    Args:
        subject: what is measured, with its unit in brackets at the end: ``words found under LRP [share]``.
        outcome: what came of the check; its deciding comparison is the one that is told.
    """
    case = outcome.deciding
    if case is None:
        return _words_of(subject)
    name = ", ".join(outcome.named((case,))) if case.bound else ""
    what = f"{_words_of(subject) or case.text}{f' ({name})' if name else ''}"
    return f"{what}: {_told(case, _unit_of(subject))}"


def sides_of(case: Case | None) -> Sides | None:
    """Return the numbers of a comparison as they are written to files; None where it compares no numbers."""
    if case is None or case.margin is None:
        return None
    margin = case.margin
    ends = [_finite(end) for end in (margin.distance.low, margin.distance.high)]
    values = [_finite(side.value) for side in (margin.needed, margin.found, margin.distance)]
    return Sides(margin.relation, *values, *ends)


def _told(case: Case, unit: str) -> str:
    if case.margin is None:
        return f"needed: true; found: {str(case.truth.point).lower()}"
    margin = case.margin
    needed, found = shown(margin.needed.value, unit), shown(margin.found.value, unit)
    return f"needed: {margin.relation} {needed}; found: {found}{_distance(margin, unit)}"


def _distance(margin: Margin, unit: str) -> str:
    """Return the margin with its interval; nothing where a side is capped."""
    distance = margin.distance
    if math.isinf(distance.value):
        return ""
    factor = 100 if unit == "share" else 1
    of_difference = DIFFERENCES.get(unit, unit)
    return f"; margin: {shown(factor * distance.value, of_difference)}{_interval(distance, factor)}"


def _interval(distance: Estimate, factor: float) -> str:
    if distance.is_exact or distance.is_open:
        return ""
    return f" (interval {shown(factor * distance.low)} to {shown(factor * distance.high)})"


def shown(value: float, unit: str = "") -> str:
    """Return a number with its unit; a share in percent."""
    if math.isinf(value):
        return "not reached"
    if unit == "share":
        return f"{100 * value:.3g} %"
    text = f"{value + 0.0:.4g}"  # + 0.0: no minus before a zero
    return f"{text} {SINGULAR.get(unit, unit) if text in ('1', '-1') else unit}".rstrip()


def _finite(value: float) -> float | None:
    return value + 0.0 if math.isfinite(value) else None


def _words_of(subject: str) -> str:
    return UNIT.sub("", subject)


def _unit_of(subject: str) -> str:
    found = UNIT.search(subject)
    return found.group(1) if found else ""
