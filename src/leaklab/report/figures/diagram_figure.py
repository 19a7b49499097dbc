"""A diagram from its description: boxes on a grid, arrows, frames, and measured numbers as bars in boxes."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.text import Text

from leaklab.items.diagram_layout import DiagramArrow, DiagramBox, DiagramFrame, DiagramLayout
from leaklab.records.errors import UserError
from leaklab.report.figures.style import (
    FAINT,
    INK,
    LINE,
    NOTE_LETTERS,
    PALETTE,
    QUIET,
    SMALLEST_FONT,
    finish,
    new_figure,
    styled,
)
from leaklab.report.numbers.results import AS_DESCRIBED, PAPER, ResultTable
from leaklab.report.numbers.series import Floats

FILLS = {"plain": "white", "private": "#FCE5D4", "seen": "#DCEAF5"}
GAP = 0.11  # of a cell, on each side of a box
FRAME_FILL, FRAME_GAP, FRAME_HEAD = "#F4F4F4", 0.06, 0.2
BAR, ROUND = PALETTE[0], 0.04
BAR_LINE = 0.17  # inches a bar takes
Edges = tuple[float, float, float, float]
"""Left, right, top and bottom, in cells of the grid; y points down."""


@dataclass(frozen=True)
class Bar:
    """One measured number at the foot of a box."""

    box: str
    label: str
    value: float


def bars(layout: DiagramLayout, results: ResultTable) -> list[Bar]:
    """Return the numbers that the diagram shows; none where it names no metric."""
    if layout.bars is None:
        return []
    shown = layout.bars
    rows = results.select(metric=shown.metric, variant=AS_DESCRIBED, attackers=("", PAPER)).rows
    return [
        Bar(str(row.row[shown.key]), layout.label(shown.label, row.row[shown.label]), row.value)
        for row in rows
        if row.value is not None
        and not row.aside
        and set(row.row) == {shown.key, shown.label}
        and row.row[shown.key] in layout.boxes
    ]


def draw(layout: DiagramLayout, measured: Sequence[Bar], title: str) -> Figure:
    """Draw a diagram.

    Args:
        layout: its description.
        measured: of ``bars``.
        title: above it.

    Raises:
        UserError: a text does not fit into its box.
    """
    left, right, top, bottom = _extent(layout)
    rows = bottom - top
    note_lines = len(textwrap.wrap(layout.note, int(NOTE_LETTERS * layout.width / 5)))
    height = rows * layout.row_height + 0.45 + LINE * note_lines
    with styled():
        figure = new_figure(layout.width, height)
        axes = figure.subplots()
        axes.set(xlim=(left, right), ylim=(bottom, top))
        axes.set_axis_off()
        for frame in layout.frames:
            _frame(axes, frame, layout.boxes)
        drawn = {name: _box(axes, box, _bars_of(measured, name), layout) for name, box in layout.boxes.items()}
        patches = {name: patch for name, (patch, _) in drawn.items()}
        arrows = [_arrow(axes, arrow, layout.boxes, patches) for arrow in layout.arrows]
        finish(figure, title, [], [layout.note] if layout.note else [])
        figure.draw_without_rendering()
        _refuse_overflow({name: text for name, (_, text) in drawn.items()}, patches)
        for arrow, patch in zip(layout.arrows, arrows, strict=True):
            if arrow.text:
                _label(axes, arrow.text, patch)
        return figure


def arrays(measured: Sequence[Bar]) -> dict[str, Floats]:
    """Return the numbers of the bars, by box and label."""
    return {f"{bar.box}/{bar.label}": np.array([bar.value]) for bar in measured}


def _edges(box: DiagramBox) -> Edges:
    """Return left, right, top and bottom of a box, in cells."""
    (column, row), (columns, rows) = box.at, box.size
    across, down = columns / 2 - GAP, rows / 2 - GAP
    return column - across, column + across, row - down, row + down


def _frame_edges(frame: DiagramFrame, boxes: Mapping[str, DiagramBox]) -> Edges:
    edges = np.array([_edges(boxes[name]) for name in frame.boxes])
    (left, top), (right, bottom) = edges[:, [0, 2]].min(0), edges[:, [1, 3]].max(0)
    return left - FRAME_GAP, right + FRAME_GAP, top - FRAME_GAP - FRAME_HEAD, bottom + FRAME_GAP


def _extent(layout: DiagramLayout) -> Edges:
    """Return left, right, top and bottom of everything."""
    edges = [_edges(box) for box in layout.boxes.values()]
    edges += [_frame_edges(frame, layout.boxes) for frame in layout.frames]
    sides = np.array(edges)
    (left, top), (right, bottom) = sides[:, [0, 2]].min(0), sides[:, [1, 3]].max(0)
    return left - GAP / 2, right + GAP / 2, top - GAP / 2, bottom + GAP / 2


def _rectangle(axes: Axes, edges: Edges, **look: object) -> FancyBboxPatch:
    left, right, top, bottom = edges
    style = f"round,pad=0,rounding_size={ROUND}"
    patch = FancyBboxPatch((left, top), right - left, bottom - top, boxstyle=style, **look)  # type: ignore[arg-type]
    axes.add_patch(patch)
    return patch


def _frame(axes: Axes, frame: DiagramFrame, boxes: Mapping[str, DiagramBox]) -> None:
    edges = _frame_edges(frame, boxes)
    _rectangle(axes, edges, facecolor=FRAME_FILL, edgecolor=FAINT, linewidth=0.6, linestyle=(0, (4, 2)), zorder=0)
    axes.text(edges[0] + 0.05, edges[2] + 0.06, frame.text, va="top", fontsize=SMALLEST_FONT, color=QUIET)


def _box(axes: Axes, box: DiagramBox, own: Sequence[Bar], layout: DiagramLayout) -> tuple[FancyBboxPatch, Text]:
    edges = _edges(box)
    left, right, top, bottom = edges
    patch = _rectangle(axes, edges, facecolor=FILLS[box.look], edgecolor=INK, linewidth=0.9, zorder=2)
    line = BAR_LINE / layout.row_height
    foot = bottom - (len(own) * line + line / 3 if own else 0)
    middle = (left + right) / 2, (top + foot) / 2
    text = axes.text(*middle, box.text, ha="center", va="center", zorder=3, linespacing=1.15)
    for place, bar in enumerate(own):
        _bar(axes, bar, (left, right), foot + (place + 0.5) * line, line, layout)
    return patch, text


def _bar(axes: Axes, bar: Bar, sides: tuple[float, float], middle: float, line: float, layout: DiagramLayout) -> None:
    """Draw label, bar and number in a line of a box."""
    assert layout.bars is not None
    left, right = sides
    width = right - left
    start, end = left + 0.44 * width, right - 0.27 * width
    share = min(max(bar.value / layout.bars.most, 0), 1)
    look: dict[str, Any] = {"va": "center", "fontsize": SMALLEST_FONT, "zorder": 3}
    axes.text(start - 0.03, middle, bar.label, ha="right", **look)
    axes.barh(middle, (end - start) * share, left=start, height=0.6 * line, color=BAR, zorder=3)
    axes.text(start + (end - start) * share + 0.02, middle, f"{bar.value:.2f}", ha="left", **look)


def _bars_of(measured: Sequence[Bar], name: str) -> list[Bar]:
    return [bar for bar in measured if bar.box == name]


def _arrow(
    axes: Axes, arrow: DiagramArrow, boxes: Mapping[str, DiagramBox], patches: Mapping[str, FancyBboxPatch]
) -> FancyArrowPatch:
    (x, y), (to_x, to_y) = boxes[arrow.source].at, boxes[arrow.target].at
    look: dict[str, Any] = {
        "color": INK,
        "linewidth": 1.0,
        "linestyle": (0, (4, 2)) if arrow.dashed else "-",
        "zorder": 1,
    }
    ends: dict[str, Any] = {
        "patchA": patches[arrow.source],
        "patchB": patches[arrow.target],
        "shrinkA": 1,
        "shrinkB": 1,
    }
    style: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 11, "connectionstyle": f"arc3,rad={arrow.bend}"}
    patch = FancyArrowPatch((x, y), (to_x, to_y), **ends, **style, **look)
    axes.add_patch(patch)
    return patch


def _label(axes: Axes, text: str, patch: FancyArrowPatch) -> None:
    """Write a text onto the middle of an arrow, where the layout has put it."""
    # a parabola with its control point; the head follows
    points = patch.get_transform().transform(np.asarray(patch.get_path().vertices)[:3])
    x, y = axes.transData.inverted().transform(np.average(points, axis=0, weights=(1, 2, 1)))
    back = {"facecolor": "white", "edgecolor": "none", "pad": 1.2, "alpha": 0.85}
    written = axes.text(x, y, text, ha="center", va="center", fontsize=SMALLEST_FONT, zorder=4, bbox=back)
    # the arrow must not move away from under it
    written.set_in_layout(False)


def _refuse_overflow(texts: Mapping[str, Text], patches: Mapping[str, FancyBboxPatch]) -> None:
    """Refuse a text that is larger than its box.

    Raises:
        UserError: names the box.
    """
    for name, text in texts.items():
        inner, outer = text.get_window_extent(), patches[name].get_window_extent()
        if inner.width > outer.width or inner.height > outer.height:
            raise UserError(
                f"diagram: the text of box '{name}' does not fit into it: break it with \\n, shorten it, or raise the "
                "box's size"
            )
