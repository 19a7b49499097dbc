"""The line of a verdict that people read: what was needed, what was found, and by how much."""

import math
import re

from leaklab.report.judge.cases import MOST_FAILURES_NAMED, Case, Outcome, Part
from leaklab.report.judge.estimates import Estimate
from leaklab.report.judge.intervals import Margin
from leaklab.report.judge.terms import bracketed
from leaklab.report.judge.verdicts import Sides

UNIT = re.compile(r"\s*\[([^\]]*)\]$")
DIFFERENCES = {"share": "points", "%": "points"}
"""Unit of a difference of two such numbers."""
SINGULAR = {"points": "point", "rounds": "round"}


def measured_line(subject: str, outcome: Outcome) -> str:
    """Return ``<subject> (<case>): needed: at most 52 %; found: 100 %; margin: -48 points`` and the other cases.

    Args:
        subject: what is measured, with its unit in brackets at the end: ``words found under LRP [share]``.
        outcome: what came of the check; its deciding comparison is the one that is told with its margin.
    """
    part = outcome.deciding
    if part is None:
        return "; ".join(filter(None, (_words_of(subject), cases_line(subject, outcome))))
    name = ", ".join(outcome.named([Case((part,))])) if len(outcome.cases) > 1 else ""
    what = f"{_words_of(subject) or part.text}{f' ({name})' if name else ''}"
    return "; ".join(filter(None, (f"{what}: {_worded(part, unit_of(subject))}", cases_line(subject, outcome))))


def cases_line(subject: str, outcome: Outcome) -> str:
    """Return ``holds for MNIST; fails for CIFAR-10 (found 49.6 %, needed above 52.2 %); not at hand: CIFAR-100 (why)``.

    A check that is one case in all says only what it lacks.
    """
    failing = failures_in_words(subject, outcome) if len(outcome.cases) > 1 else ""
    parts = (outcome.holding(), failing and f"fails for {failing}", outcome.lacking())
    return "; ".join(filter(None, parts))


def failures_in_words(subject: str, outcome: Outcome) -> str:
    """Return the cases that fail by the numbers themselves, each with the numbers of the part that it hangs on."""
    unit = unit_of(subject)
    names = [
        _with_sides(bracketed("".join(outcome.named([case]))) or "a part of it", case.worst, unit)
        for case in outcome.failing
    ]
    names = list(dict.fromkeys(names))
    more = f" and {len(names) - MOST_FAILURES_NAMED} more" if len(names) > MOST_FAILURES_NAMED else ""
    return ", ".join(names[:MOST_FAILURES_NAMED]) + more


def sides_of(part: Part | None) -> Sides | None:
    """Return the numbers of a comparison as they are written to files; None where it compares no numbers."""
    if part is None or part.margin is None:
        return None
    margin = part.margin
    ends = [_finite(end) for end in (margin.distance.low, margin.distance.high)]
    values = [_finite(side.value) for side in (margin.needed, margin.found, margin.distance)]
    return Sides(margin.relation, *values, *ends)


def _worded(part: Part, unit: str) -> str:
    if part.margin is None:
        return "this is so" if part.truth.point else "this is not so"
    margin = part.margin
    needed, found = shown(margin.needed.value, unit), shown(margin.found.value, unit)
    return f"needed: {margin.relation} {needed}; found: {found}{_distance(margin, unit)}"


def _with_sides(name: str, part: Part, unit: str) -> str:
    """Return ``EMNIST (20 clients; found 31 %, needed above 49.6 %)``."""
    if part.margin is None:
        return name
    needed, found = shown(part.margin.needed.value, unit), shown(part.margin.found.value, unit)
    said = f"found {found}, needed {part.margin.relation} {needed}"
    return f"{name[:-1]}; {said})" if name.endswith(")") else f"{name} ({said})"


def _distance(margin: Margin, unit: str) -> str:
    """Return the margin with its interval; nothing where a side is capped."""
    distance = margin.distance
    if math.isinf(distance.value):
        return ""
    return f"; margin: {of_difference(distance.value, unit)}{_interval(distance, 100 if unit == 'share' else 1)}"


def _interval(distance: Estimate, factor: float) -> str:
    if distance.is_exact or distance.is_open:
        return ""
    return f" (interval {shown(factor * distance.low)} to {shown(factor * distance.high)})"


def of_difference(value: float, unit: str) -> str:
    """Return a difference of two numbers with its unit: points for shares and for percent."""
    return shown((100 if unit == "share" else 1) * value, DIFFERENCES.get(unit, unit))


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


def unit_of(subject: str) -> str:
    """Return the unit in brackets at the end of what a claim measures; empty for none."""
    found = UNIT.search(subject)
    return found.group(1) if found else ""
