"""Points in the plane, such as clients by what they learned, told apart by group."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from leaklab.records.errors import UserError
from leaklab.records.scatter_layout import ScatterLayout
from leaklab.report.figures.strokes import COLUMN_WIDTH, Strokes, extra_height, finish, frame_of
from leaklab.report.figures.style import new_figure, styled
from leaklab.report.numbers.places import Place, in_order, labels_of, place_of
from leaklab.report.numbers.results import AS_DESCRIBED, ResultTable, identity, matches
from leaklab.report.numbers.series import Floats

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
