"""Ways through the plane, such as clients' weights from step to step, with arrows and marked points."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from leaklab.items.layouts import PathsLayout, ScatterLayout
from leaklab.records.errors import UserError
from leaklab.report.figures.style import COLUMN_WIDTH, INK, Strokes, extra_height, finish, frame_of, new_figure, styled
from leaklab.report.numbers.results import AS_DESCRIBED, ResultTable, identity, matches
from leaklab.report.numbers.series import Floats, Path, Point
from leaklab.report.numbers.words import Place, in_order, labels_of, place_of

LOWEST_PANEL, HIGHEST_PANEL = 1.2, 3.6
ROOM_FOR_LABELS = 0.75
MOST_ARROWS = 12
START_NOTE = "Hollow circle: where a path starts."
# of single points that belong to no path; the first paths have other signs
POINT_SIGNS = ("*", "P", "X", "h")


def draw_paths(layout: PathsLayout, paths: Sequence[Path], points: Sequence[Point], title: str,
         notes: Sequence[str] = ()) -> Figure:  # fmt: skip
    """Draw the paths of ``series.paths`` and the points of ``series.points``.

    All panels have the same limits and the same scale on both axes, so that angles and lengths can be compared.

    Raises:
        UserError: two paths have the same label.
    """
    panels = list(dict.fromkeys(path.panel for path in paths))
    strokes = Strokes([_label(layout, path) for path in dict.fromkeys(path.path for path in paths)])
    marked = _handles(layout, points)
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    below = [START_NOTE, *([layout.note] if layout.note else []), *notes]
    limits = [_limits(found) for found in _coordinates(paths, points)]
    names = [*strokes.names, *(str(handle.get_label()) for handle in marked)]
    with styled(ruled=True):
        figure = new_figure(
            COLUMN_WIDTH,
            rows * _panel_height(limits, columns) + 0.1 + extra_height(title, names, below, COLUMN_WIDTH),
        )
        axes = figure.subplots(rows, columns, squeeze=False)
        for place, panel in enumerate(panels):
            own = axes.flat[place]
            handles = _paths(layout, own, [path for path in paths if path.panel == panel], strokes)
            _points(layout, own, [point for point in points if point.panel in (None, panel)], strokes)
            _frame(layout, own, panel, lowest=place + columns >= len(panels), left=place % columns == 0)
            own.plot(*limits, linestyle="")  # the corners, unseen: all panels show the same part of the plane
            # equal scales by wider limits, not by a smaller box: the layout engine counts on the box
            own.set_aspect("equal", adjustable="datalim")
        for unused in axes.flat[len(panels) :]:
            unused.set_visible(False)
        finish(figure, title, [*handles, *marked], below)
    return figure


def path_arrays(layout: PathsLayout, paths: Sequence[Path], points: Sequence[Point]) -> dict[str, Floats]:
    """Return the numbers that the figure shows: two columns per path, one line per point."""
    found: dict[str, Floats] = {}
    for path in paths:
        keys = zip((*layout.panels, *layout.paths), (*path.panel, *path.path), strict=True)
        found[", ".join(f"{key} {value}" for key, (_, value) in keys)] = np.stack([path.x, path.y], axis=1)
    for label in layout.points:
        found[label] = np.array([(point.x, point.y) for point in points if point.label == label]).reshape(-1, 2)
    return found


def _paths(layout: PathsLayout, axes: Axes, paths: Sequence[Path], strokes: Strokes) -> list[Any]:
    """Draw the ways of one panel and return what stands in the legend."""
    shown = frame_of((_label(layout, path.path), path.x, path.y) for path in paths)
    handles = strokes.lines(axes, shown, sort=False, linewidth=1, markersize=6, markevery=[-1])
    starts = shown.groupby("name", sort=False).head(1)
    strokes.hollow(axes, starts, style=None, marker="o", markersize=5, markerfacecolor="white")
    for path in paths:
        _arrows(axes, path, strokes.colors[_label(layout, path.path)])
    return handles


def _arrows(axes: Axes, path: Path, color: Any) -> None:
    steps = len(path.x) - 1
    for step in range(0, steps, max(1, -(-steps // MOST_ARROWS))):
        start, end = (path.x[step], path.y[step]), (path.x[step + 1], path.y[step + 1])
        if start != end:
            axes.annotate("", xy=end, xytext=start,
                          arrowprops={"arrowstyle": "-|>", "color": color, "shrinkA": 0, "shrinkB": 2,
                                      "mutation_scale": 8, "linewidth": 0})  # fmt: skip


def _points(layout: PathsLayout, axes: Axes, points: Sequence[Point], strokes: Strokes) -> None:
    owners = ["" if point.path is None else _label(layout, point.path) for point in points]
    sns.scatterplot(x=[point.x for point in points], y=[point.y for point in points], hue=owners,
                    palette={**strokes.colors, "": INK}, style=[point.label for point in points],
                    markers=_signs(layout), s=81, linewidth=0.6, zorder=4, legend=False, ax=axes)  # fmt: skip


def _frame(layout: PathsLayout, axes: Axes, panel: Place, lowest: bool, left: bool) -> None:
    if layout.panels:
        axes.set_title(" · ".join(labels_of(layout, layout.panels, panel)), loc="left", fontweight="bold")
    axes.set(xlabel=layout.title(layout.x) if lowest else "", ylabel=layout.title(layout.y) if left else "")
    axes.tick_params(labelleft=left, labelbottom=lowest)
    axes.locator_params(nbins=5)


def _coordinates(paths: Sequence[Path], points: Sequence[Point]) -> tuple[Floats, Floats]:
    x = np.concatenate([*(path.x for path in paths), [point.x for point in points]])
    y = np.concatenate([*(path.y for path in paths), [point.y for point in points]])
    return x, y


def _limits(values: Floats) -> tuple[float, float]:
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    margin = 0.1 * (high - low) or 0.5
    return low - margin, high + margin


def _panel_height(limits: Sequence[tuple[float, float]], columns: int) -> float:
    """Return the inches of a panel with its labels, so that equal scales on both axes fill it."""
    (left, right), (low, high) = limits
    height = (COLUMN_WIDTH / columns - ROOM_FOR_LABELS) * (high - low) / (right - left)
    return min(HIGHEST_PANEL, max(LOWEST_PANEL, height)) + ROOM_FOR_LABELS


def _label(layout: PathsLayout, path: Place) -> str:
    return ", ".join(labels_of(layout, layout.paths, path))


def _signs(layout: PathsLayout) -> dict[str, str]:
    return {label: POINT_SIGNS[place % len(POINT_SIGNS)] for place, label in enumerate(layout.points)}


def _handles(layout: PathsLayout, points: Sequence[Point]) -> list[Line2D]:
    shown = {point.label for point in points}
    return [
        Line2D([], [], color=INK, marker=sign, markersize=8, linestyle="", label=layout.title(label))
        for label, sign in _signs(layout).items()
        if label in shown
    ]


# Points in the plane, such as clients by what they learned, told apart by group.

PANEL_HEIGHT = 3.0


@dataclass(frozen=True)
class Cloud:
    """The points of one group in one panel: coordinates [N, 2]."""

    panel: Place
    group: Place
    points: Floats


def clouds(layout: ScatterLayout, results: ResultTable) -> list[Cloud]:
    """Return the points by panel and group, in the order of the layout's labels.

    Raises:
        UserError: there are none, or one has no second coordinate.
    """
    rows = [row for row in results.select(variant=AS_DESCRIBED).rows if matches(row.row, layout.where)]
    second = {identity(row.row): row.value for row in rows if row.metric == layout.y}
    found: dict[tuple[Place, Place], list[tuple[float, float]]] = {}
    for row in rows:
        if row.metric != layout.x or row.value is None:
            continue
        y = second.get(identity(row.row))
        if y is None:
            raise UserError(f"scatter: {layout.x} has a point without {layout.y}: {row.row}")
        found.setdefault((place_of(row, layout.panels), place_of(row, layout.groups)), []).append((row.value, y))
    if not found:
        raise UserError(f"scatter: there is no number of {layout.x}: run the item first")
    panels = in_order(layout, (layout.x,), layout.panels, [panel for panel, _ in found])
    groups = in_order(layout, (layout.x,), layout.groups, [group for _, group in found])
    pairs = [(panel, group) for panel in panels for group in groups if (panel, group) in found]
    return [Cloud(panel, group, np.array(found[panel, group])) for panel, group in pairs]


def draw_clouds(layout: ScatterLayout, found: Sequence[Cloud], title: str, notes: Sequence[str] = ()) -> Figure:
    """Draw the points; both axes of a panel have the same scale, so that distances can be compared by eye.

    Raises:
        UserError: two groups have the same label.
    """
    panels = list(dict.fromkeys(cloud.panel for cloud in found))
    names = {group: ", ".join(labels_of(layout, layout.groups, group))
             for group in dict.fromkeys(cloud.group for cloud in found)}  # fmt: skip
    strokes = Strokes(list(names.values()))
    below = [*([layout.note] if layout.note else []), *notes]
    with styled(ruled=True):
        height = len(panels) * PANEL_HEIGHT + 0.2 + extra_height(title, strokes.names, below, COLUMN_WIDTH)
        figure = new_figure(COLUMN_WIDTH, height)
        for axes, panel in zip(figure.subplots(len(panels), 1, squeeze=False).flat, panels, strict=True):
            shown = frame_of((names[cloud.group], *cloud.points.T) for cloud in found if cloud.panel == panel)
            handles = strokes.points(axes, shown, s=64, alpha=0.85)
            if layout.panels:
                axes.set_title(" · ".join(labels_of(layout, layout.panels, panel)), loc="left", fontweight="bold")
            axes.set(xlabel=layout.title(layout.x), ylabel=layout.title(layout.y))
            axes.set_aspect("equal", adjustable="datalim")
        finish(figure, title, handles, below)
    return figure


def cloud_arrays(layout: ScatterLayout, found: Sequence[Cloud]) -> dict[str, Floats]:
    """Return the points [N, 2] of every group, under the names of its keys."""
    named = {}
    for cloud in found:
        keys = zip((*layout.panels, *layout.groups), (*cloud.panel, *cloud.group), strict=True)
        named[", ".join(f"{key} {value}" for key, (_, value) in keys)] = cloud.points
    return named
