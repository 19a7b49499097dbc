"""Printed values against the range over draws: is a difference from print larger than the luck of the draw?"""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from leaklab.records.errors import UserError
from leaklab.records.layouts import TableLayout
from leaklab.report.figures.style import DOTS_PER_INCH, FAINT, PAGE_WIDTH, PALETTE, styled
from leaklab.report.judge.comparison import Comparison
from leaklab.report.numbers.results import RowKeys

LINE_HEIGHT = 0.18
BAR, TICK, DOT = "#C3CCD6", PALETTE[0], PALETTE[1]
FILLS = {True: DOT, False: "none", None: FAINT}
"""Fill of the printed number by whether it lies in the range over the draws; None where there are no draws."""


def draw(comparisons: Sequence[Comparison], spec: TableLayout, facet: str, title: str) -> Figure:
    """Draw one panel per value of ``facet`` and one line per cell.

    The bar is the range over the draws, the vertical tick the table's own draw, the dot the printed value: filled
    where it lies in the range, hollow where it does not, gray where there are no draws.

    Args:
        comparisons: of one item and one metric; cells without draws show tick and gray dot only.
        spec: for titles and labels; the keys other than ``facet`` name the lines.
        facet: row key that makes the panels.
        title: shown above.

    Raises:
        UserError: there is nothing to draw, or a cell lacks the key ``facet``.
    """
    shown = [row for row in comparisons if row.value is not None and row.metric in spec.metrics]
    if not shown:
        raise UserError("ranges figure: no regenerated number has a printed one beside it: run the item first")
    if any(facet not in row.row for row in shown):
        raise UserError(f"ranges figure: a cell has no key '{facet}': choose one of {', '.join(shown[0].row)}")
    with styled():
        return _draw(shown, spec, facet, title)


def _draw(shown: Sequence[Comparison], spec: TableLayout, facet: str, title: str) -> Figure:
    names = list(dict.fromkeys(row.row[facet] for row in shown))
    panels = [[row for row in shown if row.row[facet] == name] for name in names]
    longest = max(len(panel) for panel in panels)
    figure = Figure(figsize=(PAGE_WIDTH, LINE_HEIGHT * longest + 1.35), dpi=DOTS_PER_INCH, layout="constrained")
    grid = figure.subplots(1, len(panels), squeeze=False)
    keys = [key for key in (*spec.rows, *spec.columns) if key != facet and key in shown[0].row]
    for axes, name, panel in zip(grid[0], names, panels, strict=True):
        _panel(axes, panel, [_line_label(spec, keys, row.row) for row in panel], named=axes is grid[0][0])
        axes.set_title(spec.label(facet, name), fontweight="bold", loc="left")
        axes.set_xlabel(spec.title(panel[0].metric))
    grid[0][0].set_ylabel(" · ".join(spec.title(key) for key in keys))
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    figure.legend(handles=_handles(), loc="outside lower center", ncols=5, handletextpad=0.4)
    return figure


def _panel(axes: Axes, rows: Sequence[Comparison], labels: Sequence[str], named: bool) -> None:
    for y, row in enumerate(rows):
        value = math.nan if row.value is None else row.value
        if row.draws_min is not None and row.draws_max is not None:
            axes.plot([row.draws_min, row.draws_max], [y, y], color=BAR, linewidth=5, solid_capstyle="butt", zorder=1)
        axes.plot([value], [y], marker="|", markersize=8, markeredgewidth=1.4, color=TICK, zorder=2)
        axes.plot([row.printed], [y], marker="o", markersize=4.5, color=DOT, zorder=3, linestyle="",
                  markerfacecolor=FILLS[row.within_draws])  # fmt: skip
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(range(len(rows)), list(labels) if named else [""] * len(rows))
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=True, axis="both", linewidth=0.4, color=FAINT, alpha=0.35)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _line_label(spec: TableLayout, keys: Sequence[str], row: RowKeys) -> str:
    return " · ".join(spec.label(key, row[key]) for key in keys)


def _handles() -> list[Line2D]:
    dot = {"marker": "o", "markersize": 4, "linestyle": "", "color": DOT}
    return [
        Line2D([], [], color=BAR, linewidth=5, label="range over the draws"),
        Line2D(
            [], [], color=TICK, marker="|", linestyle="", markersize=8, markeredgewidth=1.4, label="this table's draw"
        ),
        Line2D([], [], label="printed, inside the range", **dot),  # type: ignore[arg-type]
        Line2D([], [], label="printed, outside", markerfacecolor=FILLS[False], **dot),  # type: ignore[arg-type]
        Line2D([], [], label="printed, no draws", markerfacecolor=FILLS[None], **dot),  # type: ignore[arg-type]
    ]
