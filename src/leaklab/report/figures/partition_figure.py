"""Who holds what: the clients of a partition, sorted by size, against the labels that they train on."""

import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter, StrMethodFormatter
from numpy.typing import NDArray

from leaklab.data.deal import ROOM
from leaklab.records import plugins
from leaklab.report.figures.style import FAINT, PAGE_WIDTH, PALETTE, SMALLEST_FONT, new_figure, styled

Counts = NDArray[np.int64]
TRAINING, ASIDE = PALETTE[0], PALETTE[4]
# one hue from light to dark, told apart with any color vision; white is kept for labels that a client does not have
SHARES = LinearSegmentedColormap.from_list("shares", colormaps["Blues"](np.linspace(0.15, 1, 64)))
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
            2, 2, sharex="col", sharey="row", height_ratios=(1, 0.3 + 0.1 * rows),
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
    sizes, aside = shown.training.sum(1)[order], shown.aside[order]
    look: dict[str, Any] = {"width": 0.9}
    axes.bar(range(len(order)), sizes, color=TRAINING, label="trained on", **look)
    if aside.any():
        axes.bar(range(len(order)), aside, bottom=sizes, color=ASIDE, label="set aside for validation", **look)
        axes.legend(loc="upper right", frameon=True, framealpha=0.9, edgecolor="none")  # equal bars fill the panel
    axes.set_ylabel("samples")
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.tick_params(axis="x", length=0, labelbottom=False)


def _histogram(axes: Axes, shown: Holdings) -> None:
    """Draw how many clients have how many training samples, on the scale of ``_sizes``."""
    if len(shown.training) < FEWEST_FOR_HISTOGRAM:
        axes.set_axis_off()
        return
    sizes = shown.training.sum(1)
    axes.hist(sizes, bins=min(20, len(np.unique(sizes))), orientation="horizontal", color=TRAINING, edgecolor="white",
              linewidth=0.3)  # fmt: skip
    axes.set_xlabel("clients")
    axes.xaxis.set_label_position("top")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
    axes.tick_params(labelleft=False, labelbottom=False, labeltop=True, bottom=False, top=True)
    axes.spines[["bottom", "top"]].set(visible=False)


def _labels(axes: Axes, side: Axes, shown: Holdings) -> None:
    order = shown.by_size
    counts = shown.training[order].T
    shares = np.ma.masked_equal(counts / np.maximum(counts.sum(0), 1), 0)
    clients, labels = len(order), len(counts)
    mesh = axes.pcolormesh(np.arange(clients + 1) - 0.5, np.arange(labels + 1) - 0.5, shares,
                           cmap=SHARES, norm=PowerNorm(BEND, 0, 1), rasterized=True)  # fmt: skip
    axes.set(ylim=(labels - 0.5, -0.5), ylabel="label")
    axes.set_xlabel("client" if clients <= MOST_NAMED else f"{clients} clients, sorted by size")
    axes.set_xticks(*_named(order) if clients <= MOST_NAMED else ([], []))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=MOST_NAMED if labels <= MOST_NAMED else 8, integer=True))
    axes.tick_params(length=0)
    axes.spines[:].set(visible=True, linewidth=0.4, color=FAINT)
    side.set_axis_off()
    scale = side.inset_axes((0.05, 0, 0.16, 1))
    bar = axes.figure.colorbar(mesh, cax=scale, ticks=SHARES_NAMED, format=PercentFormatter(xmax=1, decimals=0))
    bar.set_label("share of the\nclient's samples")
    bar.minorticks_off()
    bar.outline.set(visible=False)


def _named(order: NDArray[np.intp]) -> tuple[list[int], list[str]]:
    return list(range(len(order))), [str(client + 1) for client in order]


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
