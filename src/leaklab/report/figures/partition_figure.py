"""Who holds what: the clients of a partition, sorted by size, against the labels that they train on."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter, StrMethodFormatter
from numpy.typing import NDArray

from leaklab.data.deal import ROOM
from leaklab.items.layouts import TableLayout
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.report.figures.style import DOTS_PER_INCH, FAINT, PAGE_WIDTH, PALETTE, SMALLEST_FONT, new_figure, styled
from leaklab.report.judge.comparison import Comparison
from leaklab.report.numbers.results import RowKeys

Counts = NDArray[np.int64]
TRAINING, ASIDE = "trained on", "set aside for validation"
PARTS = {TRAINING: PALETTE[0], ASIDE: PALETTE[4]}
# from light to dark, told apart with any color vision; white is kept for labels that a client does not have
SHARES = sns.blend_palette(("#D6E6F4", PALETTE[0], "#062B55"), as_cmap=True)
# shares grow by their square root: one percent and none look different, and so do a half and all
BEND = 0.5
SHARES_NAMED = (0.01, 0.1, 0.25, 0.5, 1)
MOST_NAMED = 20
FEWEST_FOR_HISTOGRAM = 10
SIDE_INCHES = 1.35
NARROWEST = 4.5
LETTERS_PER_INCH = 72 / (0.55 * SMALLEST_FONT)


@dataclass(frozen=True, eq=False)
class Holdings:
    """How many samples of each label each client has.

    Attributes:
        training: int64, [clients, labels], what they train on.
        aside: int64, [clients], samples that they set aside for validation.
        title: what was dealt, and how.
        summary: the ranges of both counts, and how much of the data is used.
    """

    training: Counts
    aside: Counts
    title: str
    summary: str

    @property
    def by_size(self) -> NDArray[np.intp]:
        """The clients, largest training part first, equal ones in their order."""
        return np.argsort(-self.training.sum(1), kind="stable")


def holdings(partition: Mapping[str, Any], labels: Counts, num_classes: int) -> Holdings:
    """Count what each client of ``partition.json`` has.

    Args:
        partition: content of the file.
        labels: [N], labels of the dataset's training part.
        num_classes: number of labels, whether a client has them or not.
    """
    training = np.stack([np.bincount(labels[indices], minlength=num_classes) for indices in partition["clients"]])
    aside = np.array([len(indices) for indices in partition["validation"]], dtype=np.int64)
    return Holdings(training, aside, _title(partition["spec"]), _summary(training, aside, len(labels)))


def draw(shown: Holdings) -> Figure:
    """Draw sizes above (with their histogram for 10 clients or more) and labels below, one column per client.

    A column's colors are shares of that client's training samples, so that small clients are as readable as large ones.

    Returns:
        a figure to be saved with ``style.save``.
    """
    clients, labels = shown.training.shape
    width = min(PAGE_WIDTH, max(NARROWEST, SIDE_INCHES + 1.5 + 0.3 * clients))
    rows = min(labels, MOST_NAMED)
    with styled():
        figure = new_figure(width, 2.6 + 0.16 * rows)
        grid = figure.subplots(
            2, 2, sharey="row", height_ratios=(1, 0.3 + 0.1 * rows),
            width_ratios=(width - SIDE_INCHES, SIDE_INCHES),
        )  # fmt: skip
        _sizes(grid[0, 0], shown)
        _histogram(grid[0, 1], shown)
        _labels(grid[1, 0], grid[1, 1], shown)
        heading = textwrap.fill(f"{shown.title}. {shown.summary}", int(width * LETTERS_PER_INCH))
        figure.suptitle(heading, x=0.01, ha="left", fontsize=SMALLEST_FONT)
        return figure


def _sizes(axes: Axes, shown: Holdings) -> None:
    order = shown.by_size
    # seaborn stacks from the last to the first
    parts = pd.DataFrame({ASIDE: shown.aside[order], TRAINING: shown.training.sum(1)[order]})
    bars = parts.loc[:, parts.any()].reset_index().melt("index")
    sns.histplot(bars, x="index", weights="value", hue="variable", palette=PARTS, multiple="stack", discrete=True,
                 shrink=0.9, alpha=1, legend=shown.aside.any(), ax=axes)  # fmt: skip
    if shown.aside.any():
        # equal bars fill the panel
        sns.move_legend(axes, "upper right", title=None, frameon=True, framealpha=0.9, edgecolor="none")
    # a bar stands above its column of the heat map
    axes.set(xlim=(-0.5, len(order) - 0.5), xlabel="", ylabel="samples")
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.tick_params(axis="x", length=0, labelbottom=False)


def _histogram(axes: Axes, shown: Holdings) -> None:
    """Draw how many clients have how many training samples, on the scale of ``_sizes``."""
    if len(shown.training) < FEWEST_FOR_HISTOGRAM:
        axes.set_axis_off()
        return
    sizes = shown.training.sum(1)
    # an edge, not a gap, keeps a bar visible where all sizes are nearly the same
    sns.histplot(y=sizes, bins=min(20, len(np.unique(sizes))), shrink=0.8, color=PARTS[TRAINING],
                 edgecolor=PARTS[TRAINING], alpha=1, ax=axes)  # fmt: skip
    axes.set_xlabel("clients")
    axes.xaxis.set_label_position("top")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
    axes.tick_params(labelleft=False, labelbottom=False, labeltop=True, bottom=False, top=True)
    sns.despine(ax=axes, bottom=True)


def _labels(axes: Axes, side: Axes, shown: Holdings) -> None:
    order = shown.by_size
    counts = pd.DataFrame(shown.training[order].T, columns=order + 1)
    shares = counts / counts.sum().clip(lower=1)
    clients, labels = len(order), len(counts)
    side.set_axis_off()
    scale = {"ticks": SHARES_NAMED, "format": PercentFormatter(xmax=1, decimals=0),
             "label": "share of the\nclient's samples"}  # fmt: skip
    sns.heatmap(shares, mask=shares == 0, cmap=SHARES, norm=PowerNorm(BEND, 0, 1), cbar_kws=scale,
                cbar_ax=side.inset_axes((0.05, 0, 0.16, 1)), xticklabels=clients <= MOST_NAMED,
                yticklabels=-(-labels // MOST_NAMED), rasterized=True, ax=axes)  # fmt: skip
    axes.set(ylabel="label", xlabel="client" if clients <= MOST_NAMED else f"{clients} clients, sorted by size")
    axes.tick_params(length=0, rotation=0)
    axes.spines[:].set(visible=True, linewidth=0.4, color=FAINT)


def _title(spec: Mapping[str, Any]) -> str:
    choice = spec["partition"]
    settings = asdict(plugins.load(ROOM, choice["name"], choice["settings"])) | {"seed": choice["seed"]}
    shown = (f"{name.replace('_', ' ')} {str(value).lower()}" for name, value in settings.items())
    return f"{spec['dataset']}, {choice['name']} ({', '.join(shown)})"


def _summary(training: Counts, aside: Counts, samples: int) -> str:
    sizes, labels = training.sum(1), (training > 0).sum(1)
    used = int(training.sum() + aside.sum())
    held = f"A client trains on {_range(sizes)} samples of {_range(labels)} labels"
    return f"{held}; {used:,} of {samples:,} samples are used."


def _range(values: Counts) -> str:
    low, high = int(values.min()), int(values.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


# Printed values against the range over draws: is a difference from print larger than the luck of the draw?

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
