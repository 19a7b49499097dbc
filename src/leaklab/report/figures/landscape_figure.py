"""Matching loss beside perceptual distance over a plane of latents, one row per defense.

What is shown: LRP paper, figure 12; the points are those of ``attacks.landscape.plane``. Each quantity stands as a
surface, which shows its shape, and as a map with contour lines, from which values and places can be read.
"""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogFormatterMathtext, MaxNLocator, NullFormatter

from leaklab.items.layouts import MINUS
from leaklab.report.figures.latent_line import (
    ENDS,
    Words,
    agreement,
    check,
    check_names,
    covers,
    is_wide,
    median_agreement,
)
from leaklab.report.figures.line_figure import ALPHA, BETA, wide_note
from leaklab.report.figures.style import (
    DOTS_PER_INCH,
    FAINT,
    INK,
    LINE,
    PAGE_WIDTH,
    QUIET,
    SMALLEST_FONT,
    styled,
    with_unit,
)
from leaklab.report.numbers.series import Floats

# rises in lightness throughout, and looks the same with any of the common color-vision deficiencies
COLORS = "cividis"
SIGNS = dict(zip(ENDS, ("o", "^"), strict=True))
LEAST_SIGN = "X"
MOST_TICKS = 5
ELEVATION, AZIMUTH = 38, -62
# inches; everything is placed by hand, because what surrounds a surface is empty and no layout engine knows it
MARGIN, HALF, SURFACE, SIDE = 0.08, 3.44, 1.45, 1.15
MAP_LEFT, BAR_LEFT, BAR_WIDTH = 1.73, 2.93, 0.08
HEADING, ROW_GAP, TICK_ROOM = 0.27, 0.16, 0.32
LETTERS = int((PAGE_WIDTH - 2 * MARGIN) * 72 / (0.55 * SMALLEST_FONT))


@dataclass(frozen=True, eq=False)
class Landscape:
    """What one defense looks like on the plane.

    Attributes:
        name: of the defense, as shown.
        alpha: [A], rising, from 0 or less to 1 or more: along the line from z1 to z2.
        beta: [B], rising, around 0: across it.
        loss: [A, B], matching loss.
        distance: [A, B], perceptual distance.
        correlations: rank correlation of loss and distance of each image, of which the one shown is typical; empty
            takes that of the surfaces shown.

    Raises:
        UserError: shapes that do not fit, a value that is not finite, or a plane that misses z1 or z2.
    """

    name: str
    alpha: Floats
    beta: Floats
    loss: Floats
    distance: Floats
    correlations: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check(self.name, {"alpha": self.alpha, "beta": self.beta}, {"loss": self.loss, "distance": self.distance})
        covers(self.name, "alpha", self.alpha, *ENDS.values())
        covers(self.name, "beta", self.beta, 0.0)


@dataclass(frozen=True)
class _Scale:
    """Colors, ticks and name of one quantity in one row."""

    norm: Normalize
    ticks: Floats
    label: str
    power: int = 0

    @property
    def is_log(self) -> bool:
        return isinstance(self.norm, LogNorm)

    def heights(self, values: Floats) -> Floats:
        """Return what a surface shows: the logarithm where the colors follow it."""
        shown: Floats = np.log10(values) if self.is_log else values
        return shown

    def of_heights(self) -> Normalize:
        """Return the norm that gives a height the color of its value."""
        assert self.norm.vmin is not None
        assert self.norm.vmax is not None
        low, high = self.heights(np.array([self.norm.vmin, self.norm.vmax])).tolist()
        return Normalize(low, high)


@dataclass(frozen=True)
class _Page:
    """A figure on which things are placed in inches from the top left corner."""

    figure: Figure

    def axes(self, left: float, top: float, width: float, height: float, **settings: Any) -> Any:
        page_width, page = self.figure.get_size_inches()
        frame = (left / page_width, 1 - (top + height) / page, width / page_width, height / page)
        return self.figure.add_axes(frame, **settings)

    def write(self, left: float, top: float, text: str, **look: Any) -> None:
        page_width, page = self.figure.get_size_inches()
        self.figure.text(left / page_width, 1 - top / page, text, **{"va": "top", "linespacing": 1.25, **look})


def draw(planes: Sequence[Landscape], title: str, notes: Sequence[str] = (), words: Words | None = None) -> Figure:
    """Draw surface and map of the matching loss (left) and of the distance (right), one row per defense.

    The colors of the distance mean the same in all rows; the loss, whose level a defense changes by orders, has its
    own colors in each row, on a log scale where it spans more than two decades.

    Args:
        planes: at least one, with different names.
        title: shown above.
        notes: shown below, beside the figure's own.
        words: other names and units.

    Raises:
        UserError: nothing to draw, or a name twice.
    """
    check_names([plane.name for plane in planes])
    words = words or Words()
    heading = textwrap.wrap(title, int(LETTERS * 0.72))
    below = [line for note in (*_own_notes(planes, words), *notes) for line in textwrap.wrap(note, LETTERS)]
    row = HEADING + SIDE + ROW_GAP
    above = MARGIN + 1.3 * LINE * len(heading) + 1.6 * LINE
    height = above + row * len(planes) + TICK_ROOM + 1.5 * LINE + LINE * len(below) + MARGIN
    with styled():
        page = _Page(Figure(figsize=(PAGE_WIDTH, height), dpi=DOTS_PER_INCH))
        page.write(MARGIN, MARGIN, "\n".join(heading), fontsize="large", fontweight="bold")
        for half, name in enumerate((words.loss, words.distance)):
            page.write(
                MARGIN + half * HALF + HALF / 2, above - 0.5 * LINE, name, ha="center", va="baseline", color=QUIET
            )
        shared = _scale(np.concatenate([plane.distance.ravel() for plane in planes]), words.distance,
                        words.distance_unit)  # fmt: skip
        for place, plane in enumerate(planes):
            scales = _scale(plane.loss, words.loss, words.loss_unit, may_be_log=True), shared
            _row(page, above + place * row, plane, scales, words, lowest=place == len(planes) - 1)
        bottom = above + row * len(planes) + TICK_ROOM
        page.figure.legend(handles=_handles(words), loc="upper left", ncols=3, borderaxespad=0,
                           columnspacing=1.4, handletextpad=0.2,
                           bbox_to_anchor=(MARGIN / PAGE_WIDTH, 1 - bottom / height))  # fmt: skip
        page.write(MARGIN, bottom + 1.5 * LINE, "\n".join(below), fontsize=SMALLEST_FONT, color=QUIET)
    return page.figure


def arrays(planes: Sequence[Landscape]) -> dict[str, Floats]:
    """Return the numbers that the figure shows, under the names of the defense and the quantity."""
    names = ("alpha", "beta", "loss", "distance")
    return {f"{plane.name}: {name}": getattr(plane, name) for plane in planes for name in names}


def _row(page: _Page, top: float, plane: Landscape, scales: tuple[_Scale, _Scale], words: Words, lowest: bool) -> None:
    page.write(MARGIN, top, plane.name, fontweight="bold")
    several = len(plane.correlations) > 1
    found = median_agreement(plane.correlations) if several else agreement(plane.loss, plane.distance)
    found = f"Spearman correlation {found}"
    page.write(MARGIN + HALF + MAP_LEFT + SIDE, top, found, ha="right", fontsize=SMALLEST_FONT)
    for half, (values, scale) in enumerate(zip((plane.loss, plane.distance), scales, strict=True)):
        left, body = MARGIN + half * HALF, top + HEADING
        surface = page.axes(left, body - 0.19, SURFACE, SURFACE, projection="3d", computed_zorder=False)
        _surface(surface, plane, values, scale)
        flat = page.axes(left + MAP_LEFT, body, SIDE, SIDE)
        mesh = _map(flat, plane, values, scale, lowest)
        _bar(page, mesh, page.axes(left + BAR_LEFT, body, BAR_WIDTH, SIDE), scale)


def _surface(axes: Any, plane: Landscape, values: Floats, scale: _Scale) -> None:
    heights = scale.heights(values)
    alpha, beta = np.meshgrid(plane.alpha, plane.beta, indexing="ij")
    axes.plot_surface(alpha, beta, heights, cmap=COLORS, norm=scale.of_heights(), rcount=len(plane.alpha),
                      ccount=len(plane.beta), linewidth=0.1, edgecolor="white", rasterized=True)  # fmt: skip
    for sign, x, y, height in _marks(plane, values, heights):
        axes.plot([x], [y], [height], marker=sign, **_mark_look(), zorder=5)
    axes.patch.set_visible(False)
    axes.view_init(elev=ELEVATION, azim=AZIMUTH)
    axes.set_box_aspect((1, 1, 0.7), zoom=0.94)
    axes.set(
        xticks=list(ENDS.values()),
        yticks=[plane.beta[0], plane.beta[-1]],
        zlim=(scale.of_heights().vmin, scale.of_heights().vmax),
    )
    axes.yaxis.set_major_formatter("{x:.2g}")
    axes.zaxis.set_major_locator(MaxNLocator(3))
    axes.zaxis.set_major_formatter(NullFormatter())
    axes.tick_params(pad=-4, labelsize=SMALLEST_FONT)
    axes.set_xlabel(ALPHA, labelpad=-13)
    axes.set_ylabel(BETA, labelpad=-13)
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.set_pane_color((1, 1, 1, 0))


def _map(axes: Axes, plane: Landscape, values: Floats, scale: _Scale, lowest: bool) -> Any:
    mesh = axes.pcolormesh(plane.alpha, plane.beta, values.T, cmap=COLORS, norm=scale.norm, shading="gouraud",
                           rasterized=True)  # fmt: skip
    levels = scale.ticks[(scale.ticks > values.min()) & (scale.ticks < values.max())]
    if levels.size:
        axes.contour(plane.alpha, plane.beta, values.T, levels=levels, colors="white", linewidths=0.7)
    for sign, x, y, _ in _marks(plane, values, values):
        axes.plot([x], [y], marker=sign, **_mark_look(), zorder=5)
    axes.set(xlim=(plane.alpha[0], plane.alpha[-1]), ylim=(plane.beta[0], plane.beta[-1]))
    axes.set_ylabel(BETA, labelpad=0)
    axes.xaxis.set_major_locator(MaxNLocator(3, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    axes.spines[:].set(visible=True, linewidth=0.4, color=FAINT)
    axes.tick_params(length=2, pad=2, labelbottom=lowest)
    if lowest:
        axes.set_xlabel(ALPHA, labelpad=0)
    return mesh


def _bar(page: _Page, mesh: Any, axes: Axes, scale: _Scale) -> None:
    factor = 10.0**scale.power
    plain = FuncFormatter(lambda value, _: f"{value / factor:g}".replace("-", MINUS))
    form = LogFormatterMathtext() if scale.is_log else plain
    bar = page.figure.colorbar(mesh, cax=axes, ticks=scale.ticks.tolist(), format=form)
    bar.set_label(scale.label, fontsize=SMALLEST_FONT, labelpad=2)
    bar.minorticks_off()
    bar.outline.set(visible=False)
    axes.tick_params(length=2, pad=2)


def _scale(values: Floats, title: str, unit: str, may_be_log: bool = False) -> _Scale:
    """Return the scale that holds all values; a constant gets one unit of room."""
    low, high = float(values.min()), float(values.max())
    if may_be_log and is_wide(values):
        exponents = np.arange(np.ceil(np.log10(low)), np.floor(np.log10(high)) + 1)
        decades = 10.0 ** exponents[:: -(-len(exponents) // MOST_TICKS)]
        return _Scale(LogNorm(low, high), decades, with_unit(title, unit))
    if low == high:
        low, high = low - 0.5, high + 0.5
    ticks = np.array(MaxNLocator(MOST_TICKS, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high))
    ticks = ticks[(ticks >= low) & (ticks <= high)]
    power = int(np.floor(np.log10(max(abs(low), abs(high)))))
    power = 0 if -2 <= power <= 3 else power
    factor = f"$10^{{{power}}}$" if power else ""
    return _Scale(Normalize(low, high), ticks, with_unit(title, " ".join(filter(None, (factor, unit)))), power)


def _marks(plane: Landscape, values: Floats, heights: Floats) -> list[tuple[str, float, float, float]]:
    """Return sign, alpha, beta and height of z1, of z2 and, upon them, of the least value on the grid."""
    row, column = np.unravel_index(int(values.argmin()), values.shape)
    least = LEAST_SIGN, float(plane.alpha[row]), float(plane.beta[column]), float(heights[row, column])
    return [*((SIGNS[name], alpha, 0.0, _between(plane, heights, alpha)) for name, alpha in ENDS.items()), least]


def _between(plane: Landscape, heights: Floats, alpha: float) -> float:
    """Return the height over (alpha, 0), linear between the points of the grid, which may miss that place."""
    at_zero = [float(np.interp(0.0, plane.beta, across)) for across in heights]
    return float(np.interp(alpha, plane.alpha, at_zero))


def _mark_look() -> dict[str, Any]:
    return {"linestyle": "", "markersize": 5.5, "markerfacecolor": "white", "markeredgecolor": INK,
            "markeredgewidth": 0.8, "clip_on": False}  # fmt: skip


def _handles(words: Words) -> list[Line2D]:
    latents = zip(SIGNS.items(), (words.first, words.second), strict=True)
    named = [(sign, f"{name}: latent {text}") for (name, sign), text in latents]
    return [
        Line2D([], [], marker=sign, label=label, **_mark_look())
        for sign, label in (*named, (LEAST_SIGN, "smallest value on the grid"))
    ]


def _own_notes(planes: Sequence[Landscape], words: Words) -> list[str]:
    return [
        f"Contour lines stand at the numbers beside the color bars, which are the heights of the surfaces too. Colors "
        f"of {words.distance} mean the same in all rows; the {words.loss} has its own colors in each row. Spearman: "
        "rank correlation of the two over all points of the grid; of several images the one with the median is shown.",
        *wide_note([plane.name for plane in planes if is_wide(plane.loss)], len(planes), words),
    ]
