"""From result rows to the curves and paths of a figure: which numbers belong together, and in which order."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaklab.items.layouts import CurvesLayout, PathsLayout
from leaklab.records.errors import UserError
from leaklab.report.numbers.results import (
    AS_DESCRIBED,
    INDEX,
    PAPER,
    UNMARKED,
    ResultRow,
    ResultTable,
    identity,
    matches,
    same,
)
from leaklab.report.numbers.words import Place, in_order, keys_text, place_of, word_of

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """One line of a figure.

    Attributes:
        panel: values of the panel keys.
        line: values of the line keys.
        metric: of y.
        unit: of y.
        x: rising, no gaps.
        y: at x; NaN where there is no number.
        std: of y over the replicates; NaN where there is none.
        low: lower end of the 95 % interval of y; NaN where there is none.
        high: upper end of it.
        missing: for each x why there is no number in a word (``capped``), else empty.
        better: ``higher`` or ``lower`` y, where one of them is.
        x_unit: of x, where it is a metric with a unit.
    """

    panel: Place
    line: Place
    metric: str
    unit: str
    x: Floats
    y: Floats
    std: Floats
    low: Floats
    high: Floats
    missing: tuple[str, ...]
    better: str = ""
    x_unit: str = ""


@dataclass(frozen=True)
class Path:
    """One way through the plane: coordinates in the order of the index."""

    panel: Place
    path: Place
    x: Floats
    y: Floats


@dataclass(frozen=True)
class Point:
    """One marked point; ``panel`` None stands in every panel, ``path`` None belongs to no path."""

    label: str
    panel: Place | None
    path: Place | None
    x: float
    y: float


def curves(layout: CurvesLayout, results: ResultTable) -> tuple[Curve, ...]:
    """Return the curves of a layout, in the order of panels and lines.

    Raises:
        UserError: nothing to draw, several metrics in one line, two numbers at one place, or an x that is no number.
    """
    if len(layout.metrics) > 1 and "metric" not in (*layout.lines, *layout.panels):
        raise UserError("curves: several metrics under 'y' need 'metric' under 'lines' or 'panels'")
    rows = [row for row in _shown(results, layout.attackers) if _fits(layout.where, row)]
    of_y = [row for row in rows if row.metric in layout.metrics and matches(row.row, layout.where)]
    at_index = _by_keys([row for row in rows if row.metric == layout.x and row.is_point])
    if at_index:
        points = [(_paired(layout.x, at_index, row), row) for row in of_y if row.is_point]
    else:
        points = [(row.row[layout.x], row) for row in of_y if layout.x in row.row and not row.is_point]
    groups: dict[tuple[Place, Place], list[tuple[float, ResultRow]]] = {}
    for x, row in points:
        if isinstance(x, bool) or not isinstance(x, int | float):
            raise UserError(f"curves: '{layout.x}' is {x!r} in {row.paper} {row.item}: x has to be a number")
        place = place_of(row, layout.panels), place_of(row, layout.lines)
        groups.setdefault(place, []).append((float(x), row))
    if not groups:
        raise UserError(f"curves: no number of {', '.join(layout.metrics)} has a '{layout.x}': run the item first")
    panels = in_order(layout, layout.metrics, layout.panels, [panel for panel, _ in groups])
    lines = in_order(layout, layout.metrics, layout.lines, [line for _, line in groups])
    of_x = [row.unit for row in rows if row.metric == layout.x]
    return tuple(
        _curve(panel, line, groups[panel, line], next(iter(of_x), ""))
        for panel in panels
        for line in lines
        if (panel, line) in groups
    )


def differences(layout: CurvesLayout, found: Sequence[Curve]) -> tuple[Curve, ...]:
    """Return each curve minus the line ``difference_to`` of its panel, where both have an x.

    That line's own difference is zero, with its standard deviation; the others' is left out (NaN), as that of a
    difference depends on how the replicates pair. A panel without the line has no differences.

    Raises:
        UserError: no curve is that line.
    """
    reference = {curve.panel: curve for curve in found if _is_reference(layout, curve)}
    if not reference:
        raise UserError(f"curves: difference_to: no line has {keys_text(layout.difference_to)}")
    return tuple(_minus(curve, reference[curve.panel]) for curve in found if curve.panel in reference)


def _is_reference(layout: CurvesLayout, curve: Curve) -> bool:
    keys = {key: value for key, (_, value) in zip(layout.lines, curve.line, strict=True)}
    return matches(keys, layout.difference_to)


def _minus(curve: Curve, reference: Curve) -> Curve:
    if any(len(np.unique(one.x)) < len(one.x) for one in (curve, reference)):
        raise UserError("curves: difference_to: two numbers at one x: nobody can tell which of them to compare")
    x, own, other = np.intersect1d(curve.x, reference.x, assume_unique=True, return_indices=True)
    none = np.full(len(x), np.nan)  # an interval of the difference would need the replicates
    std = curve.std if curve is reference else none
    return replace(
        curve, x=x, y=curve.y[own] - reference.y[other], std=std, low=none, high=none, missing=("",) * len(x)
    )


def paths(layout: PathsLayout, results: ResultTable) -> tuple[Path, ...]:
    """Return the paths of a layout, in the order of panels and paths.

    Raises:
        UserError: nothing to draw, or a coordinate without its partner.
    """
    rows = [row for row in _shown(results) if row.is_point and _fits(layout.where, row)]
    first = _by_keys([row for row in rows if row.metric == layout.x])
    groups: dict[tuple[Place, Place], dict[float, tuple[float, float]]] = {}
    for row in rows:
        if row.metric == layout.y and matches(row.row, layout.where):
            x = _paired(layout.x, first, row)
            place = place_of(row, layout.panels), place_of(row, layout.paths)
            of_path = groups.setdefault(place, {})
            if row.row[INDEX] in of_path:
                raise UserError(f"paths: two points at {keys_text(row.row)}: name more keys under 'paths' or 'panels'")
            of_path[row.row[INDEX]] = (x, np.nan if row.value is None else row.value)
    if not groups:
        raise UserError(f"paths: no points with {layout.x} and {layout.y}: run the item first")
    panels = in_order(layout, (), layout.panels, [panel for panel, _ in groups])
    names = in_order(layout, (), layout.paths, [path for _, path in groups])
    return tuple(
        _path(panel, name, groups[panel, name]) for panel in panels for name in names if (panel, name) in groups
    )


def points(layout: PathsLayout, results: ResultTable) -> tuple[Point, ...]:
    """Return the single points of a layout."""
    rows = [row for row in _shown(results) if not row.is_point and _fits(layout.where, row)]
    found = []
    for label, (x_metric, y_metric) in layout.points.items():
        first = {identity(row.row): row.value for row in rows if row.metric == x_metric}
        for row in rows:
            x, y = first.get(identity(row.row)), row.value
            if row.metric == y_metric and x is not None and y is not None:
                panel, path = (_place_or_none(row, keys) for keys in (layout.panels, layout.paths))
                found.append(Point(label, panel, path, x, y))
    return tuple(found)


def _shown(results: ResultTable, attackers: Sequence[str] = (PAPER, UNMARKED)) -> list[ResultRow]:
    rows = results.select(attackers=attackers, variant=AS_DESCRIBED).rows
    return [row for row in rows if not row.aside]


def _fits(where: Mapping[str, Any], row: ResultRow) -> bool:
    """Return whether a row contradicts none of the keys; an x or an optimum may belong to several of their values."""
    return all(name not in row.row or same(row.row[name], value) for name, value in where.items())


ByKeys = dict[tuple[str, ...], dict[str, float | None]]


def _by_keys(rows: Iterable[ResultRow]) -> ByKeys:
    """Return the values by the rows' keys, first by which keys they have."""
    found: ByKeys = {}
    for row in rows:
        found.setdefault(tuple(row.row), {})[identity(row.row)] = row.value
    return found


def _paired(metric: str, found: ByKeys, row: ResultRow) -> float:
    """Return the value of ``metric`` that belongs to a row: its keys are among the row's."""
    for names, values in found.items():
        if all(name in row.row for name in names):
            value = values.get(identity({name: row.row[name] for name in names}))
            if value is not None:
                return value
    raise UserError(f"{row.paper} {row.item}: no {metric} belongs to {row.metric} of {keys_text(row.row)}")


def _curve(panel: Place, line: Place, points: Sequence[tuple[float, ResultRow]], x_unit: str) -> Curve:
    ordered = sorted(points, key=lambda point: point[0])
    rows = [row for _, row in ordered]
    x = np.array([value for value, _ in ordered], dtype=np.float64)
    # what is told apart by its place on the line may fall on one x, such as two strengths that cost the same accuracy
    places = {(at, row.row.get("index")) for at, row in ordered}
    if len(places) < len(ordered) or len({row.metric for row in rows}) > 1:
        raise UserError(f"curves: two numbers at one x in {keys_text(rows[0].row)}: name more keys under 'lines'")
    return Curve(
        panel=panel,
        line=line,
        metric=rows[0].metric,
        unit=rows[0].unit,
        x=x,
        y=_floats(rows, lambda row: row.value),
        std=_floats(rows, lambda row: row.std),
        low=_floats(rows, lambda row: row.ci_low),
        high=_floats(rows, lambda row: row.ci_high),
        missing=tuple("" if row.value is not None else word_of(row) or "no number" for row in rows),
        better=rows[0].better,
        x_unit=x_unit,
    )


def _path(panel: Place, name: Place, of_path: Mapping[float, tuple[float, float]]) -> Path:
    ordered = np.array([of_path[index] for index in sorted(of_path)], dtype=np.float64)
    return Path(panel, name, ordered[:, 0], ordered[:, 1])


def _floats(rows: Iterable[ResultRow], field: Callable[[ResultRow], float | None]) -> Floats:
    values = [field(row) for row in rows]
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _place_or_none(row: ResultRow, keys: Sequence[str]) -> Place | None:
    return place_of(row, keys) if keys and all(key in row.row for key in keys) else None
