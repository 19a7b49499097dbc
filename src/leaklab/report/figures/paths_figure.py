"""Ways through the plane, such as clients' weights from step to step, with arrows and marked points."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from leaklab.records.layouts import PathsLayout
from leaklab.report.figures.strokes import COLUMN_WIDTH, Stroke, extra_height, finish, stroke
from leaklab.report.figures.style import FAINT, INK, new_figure, styled
from leaklab.report.numbers.places import Place, labels_of
from leaklab.report.numbers.series import Floats, Path, Point

LOWEST_PANEL, HIGHEST_PANEL = 1.2, 3.6
ROOM_FOR_LABELS = 0.75
MOST_ARROWS = 12
START_NOTE = "Hollow circle: where a path starts."
# of single points that belong to no path; paths have the other signs
POINT_SIGNS = ("*", "P", "X", "h")


def draw(layout: PathsLayout, paths: Sequence[Path], points: Sequence[Point], title: str,
         notes: Sequence[str] = ()) -> Figure:  # fmt: skip
    """Draw the paths of ``series.paths`` and the points of ``series.points``.

    All panels have the same limits and the same scale on both axes, so that angles and lengths can be compared.
    """
    panels = list(dict.fromkeys(path.panel for path in paths))
    names = list(dict.fromkeys(path.path for path in paths))
    strokes = {name: stroke(place) for place, name in enumerate(names)}
    signs = {label: POINT_SIGNS[place % len(POINT_SIGNS)] for place, label in enumerate(layout.points)}
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    below = [
        START_NOTE,
        *([layout.note] if layout.note else []),
        *notes,
    ]
    limits = [_limits(found) for found in _coordinates(paths, points)]
    with styled():
        handles = _handles(layout, strokes, signs, points)
        figure = new_figure(
            COLUMN_WIDTH,
            rows * _panel_height(limits, columns) + 0.1 + extra_height(title, handles, below, COLUMN_WIDTH),
        )
        axes = figure.subplots(rows, columns, squeeze=False)
        for place, panel in enumerate(panels):
            own = axes.flat[place]
            for path in (path for path in paths if path.panel == panel):
                _path(own, path, strokes[path.path])
            for point in (point for point in points if point.panel in (None, panel)):
                _point(own, point, signs[point.label], strokes)
            _frame(layout, own, panel, lowest=place + columns >= len(panels), left=place % columns == 0)
            own.plot(*limits, linestyle="")  # the corners, unseen: all panels show the same part of the plane
            # equal scales by wider limits, not by a smaller box: the layout engine counts on the box
            own.set_aspect("equal", adjustable="datalim")
        for unused in axes.flat[len(panels) :]:
            unused.set_visible(False)
        finish(figure, title, handles, below)
    return figure


def arrays(layout: PathsLayout, paths: Sequence[Path], points: Sequence[Point]) -> dict[str, Floats]:
    """Return the numbers that the figure shows: two columns per path, one line per point."""
    found: dict[str, Floats] = {}
    for path in paths:
        keys = zip((*layout.panels, *layout.paths), (*path.panel, *path.path), strict=True)
        found[", ".join(f"{key} {value}" for key, (_, value) in keys)] = np.stack([path.x, path.y], axis=1)
    for label in layout.points:
        found[label] = np.array([(point.x, point.y) for point in points if point.label == label]).reshape(-1, 2)
    return found


def _path(axes: Axes, path: Path, look: Stroke) -> None:
    axes.plot(path.x, path.y, color=look.color, linestyle=look.dashes, linewidth=1.0)
    axes.plot(path.x[:1], path.y[:1], color=look.color, marker="o", markersize=5, markerfacecolor="white", linestyle="")
    axes.plot(path.x[-1:], path.y[-1:], color=look.color, marker=look.marker, markersize=5, linestyle="")
    steps = len(path.x) - 1
    for step in range(0, steps, max(1, -(-steps // MOST_ARROWS))):
        start, end = (path.x[step], path.y[step]), (path.x[step + 1], path.y[step + 1])
        if start != end:
            axes.annotate("", xy=end, xytext=start,
                          arrowprops={"arrowstyle": "-|>", "color": look.color, "shrinkA": 0, "shrinkB": 2,
                                      "mutation_scale": 8, "linewidth": 0})  # fmt: skip


def _point(axes: Axes, point: Point, sign: str, strokes: dict[Place, Stroke]) -> None:
    look = strokes.get(point.path) if point.path is not None else None
    axes.plot([point.x], [point.y], marker=sign, markersize=9, color=look.color if look else INK, linestyle="",
              markeredgecolor="white", markeredgewidth=0.6, zorder=4)  # fmt: skip


def _frame(layout: PathsLayout, axes: Axes, panel: Place, lowest: bool, left: bool) -> None:
    if layout.panels:
        axes.set_title(" · ".join(labels_of(layout, layout.panels, panel)), loc="left", fontweight="bold")
    if left:
        axes.set_ylabel(layout.title(layout.y))
    if lowest:
        axes.set_xlabel(layout.title(layout.x))
    axes.tick_params(labelleft=left, labelbottom=lowest)
    axes.locator_params(nbins=5)
    axes.grid(visible=True, linewidth=0.4, color=FAINT, alpha=0.35)
    axes.set_axisbelow(True)


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


def _handles(
    layout: PathsLayout, strokes: dict[Place, Stroke], signs: dict[str, str], points: Sequence[Point]
) -> list[Line2D]:
    lines = [
        Line2D(
            [],
            [],
            color=look.color,
            linestyle=look.dashes,
            marker=look.marker,
            markersize=5,
            label=", ".join(labels_of(layout, layout.paths, name)),
        )
        for name, look in strokes.items()
    ]
    shown = {point.label for point in points}
    marked = [
        Line2D([], [], color=INK, marker=sign, markersize=8, linestyle="", label=layout.title(label))
        for label, sign in signs.items()
        if label in shown
    ]
    return [*lines, *marked]
