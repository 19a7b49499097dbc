"""Printed values against the range over draws: is a difference from print larger than the luck of the draw?"""

from collections.abc import Sequence

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from leaklab.records.errors import UserError
from leaklab.records.layouts import TableLayout
from leaklab.report.figures.style import DOTS_PER_INCH, FAINT, PAGE_WIDTH, PALETTE, styled
from leaklab.report.judge.comparison import Comparison
from leaklab.report.numbers.results import RowKeys

LINE_HEIGHT = 0.18
BAR, TICK, DOT = "#C3CCD6", PALETTE[0], PALETTE[1]
FILLS = {"printed, inside the range": DOT, "printed, outside": "none", "printed, no draws": FAINT}
VERDICTS = dict(zip((True, False, None), FILLS, strict=True))
"""What is said of a printed number by whether it lies in the range over the draws; None where there are no draws."""


def draw_ranges(comparisons: Sequence[Comparison], spec: TableLayout, facet: str, title: str) -> Figure:
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
    with styled(ruled=True):
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
        axes.get_legend().remove()
        axes.set_title(spec.label(facet, name), fontweight="bold", loc="left")
        axes.set(xlabel=spec.title(panel[0].metric), ylabel="")
    grid[0][0].set_ylabel(" · ".join(spec.title(key) for key in keys))
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    handles, _ = grid[0][0].get_legend_handles_labels()
    figure.legend(handles=handles, loc="outside lower center", ncols=3, handletextpad=0.4)
    return figure


def _panel(axes: Axes, rows: Sequence[Comparison], labels: Sequence[str], named: bool) -> None:
    shown = pd.DataFrame(rows).assign(y=range(len(rows)), verdict=[VERDICTS[row.within_draws] for row in rows])
    axes.hlines(shown.y, shown.draws_min.astype(float), shown.draws_max.astype(float), color=BAR, linewidth=5,
                label="range over the draws")  # fmt: skip
    sns.scatterplot(shown, x="value", y="y", marker="|", s=64, linewidth=1.4, color=TICK, label="this table's draw",
                    zorder=2, ax=axes)  # fmt: skip
    sns.scatterplot(shown, x="printed", y="y", hue="verdict", hue_order=FILLS, palette=FILLS, edgecolor=DOT, s=20,
                    linewidth=1, zorder=3, ax=axes)  # fmt: skip
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(range(len(rows)), list(labels) if named else [""] * len(rows))
    axes.tick_params(axis="y", length=0)
    sns.despine(ax=axes, left=True)


def _line_label(spec: TableLayout, keys: Sequence[str], row: RowKeys) -> str:
    return " · ".join(spec.label(key, row[key]) for key in keys)
