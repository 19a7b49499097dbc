"""Matching loss above perceptual distance along a line of latents, one panel per defense.

What is shown: LRP paper, figures 4 and 11; the points are those of ``attacks.landscape.line``. The two quantities stand
in axes of their own, one above the other: on two scales of one panel, where curves cross would mean nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, ScalarFormatter

from leaklab.report.figures.latent_line import (
    ENDS,
    LatentLine,
    Words,
    agreement,
    check_names,
    is_wide,
    median_agreement,
)
from leaklab.report.figures.style import (
    COLUMN_WIDTH,
    INK,
    PAGE_WIDTH,
    QUIET,
    SMALLEST_FONT,
    Strokes,
    extra_height,
    finish,
    frame_of,
    new_figure,
    styled,
    with_unit,
)
from leaklab.report.numbers.series import Floats

ALPHA, BETA = r"$\alpha$", r"$\beta$"
MOST_ABREAST = 2  # narrower panels have no room for their names
PANEL_HEIGHT = 2.9
NAMES_SHARE = 0.14
LEAST = "smallest value on the line"
# numbers of these powers of ten are written out
PLAIN_POWERS = (-2, 4)


def draw(lines: Sequence[LatentLine], title: str, notes: Sequence[str] = (), words: Words | None = None) -> Figure:
    """Draw one panel per defense, two abreast.

    The distance has the same limits in all panels, the loss its own in each: defenses change its level by orders.

    Args:
        lines: at least one, with different names.
        title: shown above.
        notes: shown below, beside the figure's own.
        words: other names and units.

    Raises:
        UserError: nothing to draw, or a name twice.
    """
    check_names([line.name for line in lines])
    words = words or Words()
    below = [*_own_notes(lines, words), *notes]
    columns = min(MOST_ABREAST, len(lines))
    rows = -(-len(lines) // columns)
    width = COLUMN_WIDTH if columns < MOST_ABREAST else PAGE_WIDTH
    profiled = [words.profiled] if any(line.profiled is not None for line in lines) else []
    strokes = Strokes([words.loss, *profiled, words.distance])
    least = Line2D([], [], color=INK, marker="o", markersize=5.5, linestyle="", markerfacecolor="white", label=LEAST)
    with styled(ruled=True):
        figure = new_figure(width, rows * PANEL_HEIGHT + extra_height(title, [*strokes.names, LEAST], below, width))
        axes = figure.subplots(2 * rows, columns, squeeze=False, sharex=True, height_ratios=(1.2, 1) * rows)
        limits = _limits(np.concatenate([line.distances for line in lines]))
        pairs = [axes[2 * row : 2 * row + 2, column] for row in range(rows) for column in range(columns)]
        for place, line in enumerate(lines):
            upper, lower = pairs[place]
            _losses(upper, line, words, strokes)
            upper.set_title(line.name, loc="left", fontweight="bold", y=1, pad=15 if any(map(_has_power, lines)) else 4)
            handles = _distance(lower, line, words, strokes)
            lower.set_ylim(*limits)
            _name_axes(upper, lower, words, first=place % columns == 0, lowest=place + columns >= len(lines))
        for unused in np.ravel(pairs[len(lines) :]):
            unused.set_visible(False)
        finish(figure, title, [*handles, least], below)
    return figure


def arrays(lines: Sequence[LatentLine]) -> dict[str, Floats]:
    """Return the numbers that the figure shows, under the names of the defense and the quantity."""
    return {
        f"{line.name}: {name}": own
        for line in lines
        for name, own in {"alpha": line.alpha, **line.values, **_of_others(line)}.items()
    }


def _of_others(line: LatentLine) -> dict[str, Floats]:
    """Return what a line has where there are several images."""
    found = {"other losses": line.other_losses, "other distances": line.other_distances}
    return {name: own for name, own in (found | {"correlations": np.array(line.correlations)}).items() if own.size}


def wide_note(names: Sequence[str], of_all: int, words: Words) -> list[str]:
    """Return the sentence that says where the loss has a log scale."""
    where = "everywhere" if len(names) == of_all else f"under {'; '.join(names)}"
    return [f"The {words.loss} has a logarithmic scale {where}."] if names else []


def _losses(axes: Axes, line: LatentLine, words: Words, strokes: Strokes) -> None:
    both = {words.loss: line.loss, words.profiled: line.profiled}
    _curves(axes, line.alpha, {name: own for name, own in both.items() if own is not None}, line.other_losses, strokes)
    if is_wide(line.losses):
        axes.set_yscale("log")
    else:
        formatter = ScalarFormatter(useOffset=False, useMathText=True)
        formatter.set_powerlimits(PLAIN_POWERS)
        axes.yaxis.set_major_formatter(formatter)
        axes.yaxis.set_major_locator(MaxNLocator(5))
    # the names of the latents stand in a strip that no curve enters
    low, high = (np.log(bound) if is_wide(line.losses) else bound for bound in axes.get_ylim())
    high += NAMES_SHARE * (high - low)
    axes.set_ylim(top=np.exp(high) if is_wide(line.losses) else high)
    for label, place in ENDS.items():
        axes.annotate(label, (place, 1), xycoords=("data", "axes fraction"), xytext=(2, -1),
                      textcoords="offset points", va="top", color=QUIET, fontsize=SMALLEST_FONT)  # fmt: skip


def _has_power(line: LatentLine) -> bool:
    """Return whether a power of ten stands above the axis, below the panel's name."""
    low, high = PLAIN_POWERS
    return not is_wide(line.losses) and not low < np.floor(np.log10(np.abs(line.losses).max() or 1)) < high


def _distance(axes: Axes, line: LatentLine, words: Words, strokes: Strokes) -> list[Any]:
    """Draw the lower axes and return what stands in the legend."""
    handles = _curves(axes, line.alpha, {words.distance: line.distance}, line.other_distances, strokes)
    several = len(line.correlations) > 1
    found = median_agreement(line.correlations) if several else agreement(line.loss, line.distance)
    found = f"Spearman {found}"
    if line.profiled is not None:
        found += f", profiled {agreement(line.profiled, line.distance)}"
    axes.set_title(found, loc="left", fontsize=SMALLEST_FONT)
    return handles


def _curves(axes: Axes, alpha: Floats, shown: Mapping[str, Floats], others: Floats, strokes: Strokes) -> list[Any]:
    """Draw quantities and mark where each is smallest; the first of them also for the other images, thin."""
    if len(others):
        thin = frame_of((next(iter(shown)), alpha, own) for own in others)
        thin["part"] = np.repeat(range(len(others)), len(alpha))
        strokes.lines(axes, thin, style=None, linewidth=0.5, alpha=0.4, zorder=1)
    frame = frame_of((name, alpha, own) for name, own in shown.items())
    handles = strokes.lines(axes, frame, markers=False)
    least = frame.loc[frame.groupby("name", sort=False)["y"].idxmin()]
    strokes.hollow(axes, least, style=None, marker="o", markersize=5.5, markerfacecolor="white", zorder=4)
    return handles


def _name_axes(upper: Axes, lower: Axes, words: Words, first: bool, lowest: bool) -> None:
    for axes in (upper, lower):
        for place in ENDS.values():
            axes.axvline(place, color=QUIET, linewidth=0.9, linestyle=(0, (2, 2)), zorder=1)
    lower.tick_params(labelleft=first)
    if first:
        upper.set_ylabel(with_unit(words.loss, words.loss_unit))
        lower.set_ylabel(with_unit(words.distance, words.distance_unit))
    if lowest:
        lower.set_xlabel(ALPHA)
        lower.tick_params(labelbottom=True)


def _limits(values: Floats) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    margin = 0.06 * (high - low) or 0.5
    return low - margin, high + margin


def _own_notes(lines: Sequence[LatentLine], words: Words) -> list[str]:
    first, second = ENDS
    return [
        f"{first}: latent {words.first}; {second}: latent {words.second}. Spearman: rank correlation of {words.loss} "
        f"and {words.distance} over the points of the line. {words.distance} has the same limits in all panels, the "
        "loss its own in each.",
        *(
            ["Thick: the image whose correlation is the median; thin: the other images."]
            if any(len(line.correlations) > 1 for line in lines)
            else []
        ),
        *wide_note([line.name for line in lines if is_wide(line.losses)], len(lines), words),
    ]
