"""One look for all figures, and files whose bytes are the same in every run."""

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from textwrap import wrap
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.transforms import Bbox
from PIL import Image, ImageChops, ImageStat

from leaklab.records.errors import UserError
from leaklab.records.files import atomic
from leaklab.report.numbers.series import Floats

PAGE_WIDTH = 7.0
SMALLEST_FONT = 8
DOTS_PER_INCH = 160
RASTER_DOTS_PER_INCH = 75  # of surfaces and maps in a pdf, whose lines and letters stay lines
PALETTE_ERROR = 0.5  # of 255: largest mean error of a color channel for which a png gets a palette
LEFT = 0.012
"""Where title, notes and foot begin, as a share of the width."""
FOOT_MARGIN, FOOT_LINE, FOOT_LETTERS = 0.1, 0.14, 16  # inches, inches, letters in an inch
DECIMALS = 9  # of a share of the figure: a millionth of a dot
# Okabe and Ito's colors, which people with any of the common color-vision deficiencies tell apart better than those of
# seaborn's palette "colorblind"; their yellow is faint on white, so a brown and a gray stand in for it
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#661100", "#6F6F6F")
INK = "#222222"
QUIET = "#555555"
FAINT = "#8A8A8A"

# what the house adds to seaborn's context "paper" and style "ticks"
_LOOK = {
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.titlesize": 10,
    "grid.alpha": 0.35,
    "grid.color": FAINT,
    "grid.linewidth": 0.4,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "pdf.fonttype": 42,
}


@contextmanager
def styled(ruled: bool = False) -> Iterator[None]:
    """Draw in the style of the house within a ``with`` block, and leave no trace of it behind.

    Args:
        ruled: whether axes that are made within have a grid.
    """
    scale = SMALLEST_FONT / sns.plotting_context("paper")["xtick.labelsize"]
    with mpl.rc_context():
        # the font that comes with matplotlib: a figure must not depend on what is installed
        sns.set_theme("paper", "ticks", PALETTE, "DejaVu Sans", scale, color_codes=False,
                      rc={**_LOOK, "axes.grid": ruled})  # fmt: skip
        yield


def new_figure(width: float = PAGE_WIDTH, height: float = 3.0) -> Figure:
    """Return an empty figure (inches) that lays itself out and belongs to no window; call it within ``styled()``."""
    return Figure(figsize=(width, height), dpi=DOTS_PER_INCH, layout="constrained")


def save(figure: Figure, png: Path | None = None, pdf: Path | None = None, foot: str = "", left: float = LEFT) -> None:
    """Write a figure as png and pdf, each as a whole or not at all, with the same bytes for the same figure.

    Args:
        figure: what to draw.
        png: target, at 160 dots per inch; None leaves it out.
        pdf: target, with embedded TrueType fonts; None leaves it out.
        foot: a line or two below the figure, which moves nothing in it; empty for none.
        left: where the foot begins, as a share of the width.
    """
    # matplotlib would note its version and the time
    undated: list[tuple[Path | None, str, dict[str, None]]] = [
        (png, "png", {"Software": None}),
        (pdf, "pdf", {"CreationDate": None, "Creator": None, "Producer": None}),
    ]
    with styled():
        _settle(figure)
        page = _with_foot(figure, foot, left)
        for path, kind, metadata in undated:
            if path is not None:
                dots = DOTS_PER_INCH if kind == "png" else RASTER_DOTS_PER_INCH
                with atomic(path) as temporary:
                    figure.savefig(temporary, format=kind, dpi=dots, metadata=metadata, bbox_inches=page)
                    if kind == "png":
                        _with_palette(temporary)


def _with_palette(png: Path) -> None:
    """Give a png 256 colors where nobody would see it, for a third of its size; photographs only lose their alpha."""
    with Image.open(png) as opened:
        full = opened.convert("RGB")
    few = full.quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    errors = ImageStat.Stat(ImageChops.difference(full, few.convert("RGB"))).mean
    lighter = few if max(errors) <= PALETTE_ERROR else full
    lighter.save(png, format="png", optimize=True, dpi=(DOTS_PER_INCH, DOTS_PER_INCH))


def _with_foot(figure: Figure, foot: str, left: float) -> Bbox | None:
    """Write the foot under the figure's lower edge; return the page that holds both, None for the figure alone."""
    if not foot:
        return None
    width, height = figure.get_size_inches()
    lines = textwrap.wrap(foot, int((width - 2 * FOOT_MARGIN) * FOOT_LETTERS))
    figure.text(left, 0, "\n".join(lines), fontsize=SMALLEST_FONT, color=QUIET, va="top", linespacing=1.2)
    whole_dots = round((len(lines) * FOOT_LINE + FOOT_MARGIN) * DOTS_PER_INCH) / DOTS_PER_INCH
    return Bbox([[0, -whole_dots], [width, height]])


def _settle(figure: Figure) -> None:
    """Lay the figure out once and round where its axes lie.

    The solver behind the layout goes through its constraints by their place in memory, so its last digits differ from
    run to run, and with them the shade of a pixel.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        for which in ("original", "active"):
            place = axes.get_position(original=which == "original")
            axes.set_position(Bbox(place.get_points().round(DECIMALS)), which=which)


# How lines and points are told apart without color, and the parts that figures of curves and of paths share.

# narrow on purpose: on a phone, 360 points wide, letters keep their size
COLUMN_WIDTH = 5.0
NOTE_LETTERS = 78
LEGEND_LETTERS = 80
TITLE_LETTERS = 58
LINE = SMALLEST_FONT * 1.35 / 72
# seaborn's are small and thin on a phone; one more than colors, so that a color that comes again has another sign
SIGNS = ("o", "s", "^", "D", "v", "P", "X", "p", "<")


@dataclass(frozen=True)
class Strokes:
    """How seaborn draws lines and points of these names: each of color, dashes and sign tells them apart.

    A name looks the same in all panels, whether the others are there or not. What is drawn are the points of
    ``frame_of`` as they are, without means and bands of seaborn's.

    Raises:
        UserError: a name stands for two lines or groups, which would become one.
    """

    names: Sequence[str]

    def __post_init__(self) -> None:
        twice = sorted({name for name in self.names if self.names.count(name) > 1})
        if twice:
            raise UserError(f"'{twice[0]}' stands for two lines or groups of one figure: give each its own label")

    @property
    def colors(self) -> dict[str, str]:
        """Color by name."""
        # a cycle has no end, so nothing is left over by mistake; likewise the signs below
        return dict(zip(self.names, cycle(PALETTE), strict=False))

    def lines(self, axes: Axes, frame: pd.DataFrame, **more: Any) -> list[Any]:
        """Draw lines, and return what the legend has to say."""
        return self._draw(sns.lineplot, axes, frame, {"units": "part", "estimator": None, **more})

    def points(self, axes: Axes, frame: pd.DataFrame, **more: Any) -> list[Any]:
        """Draw points, and return what the legend has to say."""
        return self._draw(sns.scatterplot, axes, frame, more)

    def hollow(self, axes: Axes, frame: pd.DataFrame, **more: Any) -> None:
        """Draw hollow marks; seaborn's points are filled, so these are lines without a line."""
        if len(frame):
            self.lines(axes, frame, legend=False, linestyle="", dashes=False, markeredgecolor="auto",
                       markeredgewidth=1, **more)  # fmt: skip

    def _draw(self, plot: Callable[..., Any], axes: Axes, frame: pd.DataFrame, more: dict[str, Any]) -> list[Any]:
        look = {"x": "x", "y": "y", "hue": "name", "style": "name", "hue_order": self.names, "style_order": self.names,
                "palette": self.colors, "markers": dict(zip(self.names, cycle(SIGNS), strict=False)),
                "legend": any(self.names)}  # fmt: skip
        plot(frame, ax=axes, **{**look, **more})
        handles, _ = axes.get_legend_handles_labels()
        for artist in filter(None, (*handles, axes.get_legend())):
            artist.remove()  # one legend below serves all panels
        for axis in (axes.xaxis, axes.yaxis):
            # seaborn writes its own, and hides them where ticks have no labels yet
            axis.label.set(text="", visible=True)
        return handles


def frame_of(named: Iterable[tuple[str, Floats, Floats]]) -> pd.DataFrame:
    """Return names, x and y as seaborn reads them.

    It leaves out points without a number and would join their neighbors, so the line has another ``part`` behind each.
    """
    frames = [pd.DataFrame({"name": name, "x": x, "y": y, "part": np.isnan(y).cumsum()}) for name, x, y in named]
    return pd.concat(frames, ignore_index=True)


def with_unit(title: str, unit: str) -> str:
    """Return ``test accuracy (%)``; a title that names the unit stays as it is."""
    return f"{title} ({unit})" if unit and unit not in title else title


def finish(figure: Figure, title: str, handles: Sequence[Any], notes: Sequence[str]) -> None:
    """Add the title above, the legend below the panels and the notes below all."""
    width, height = figure.get_figwidth(), figure.get_figheight()
    figure.suptitle("\n".join(_lines(title, TITLE_LETTERS, width)), x=LEFT, ha="left", fontweight="bold")
    lines = [line for note in notes for line in _lines(note, NOTE_LETTERS, width)]
    for_notes = LINE * len(lines) + 0.06 if lines else 0.0
    names = [str(handle.get_label()) for handle in handles]
    share = (for_notes + _legend_height(names, width)) / height
    engine = figure.get_layout_engine()
    assert isinstance(engine, ConstrainedLayoutEngine)
    engine.set(rect=(0, share, 1, 1 - share))
    figure.text(LEFT, 0.04 / height, "\n".join(lines), fontsize=SMALLEST_FONT, color=QUIET, va="bottom",
                linespacing=1.25)  # fmt: skip
    if handles:
        legend = figure.legend(handles=handles, loc="lower left", ncols=_legend_columns(names, width),
                               handlelength=3.2, columnspacing=1.4, bbox_to_anchor=(0, for_notes / height))  # fmt: skip
        # its room is reserved above; the engine would make room inside the panels
        legend.set_in_layout(False)


def extra_height(title: str, names: Sequence[str], notes: Sequence[str], width: float) -> float:
    """Return the inches that title, a legend of these names and notes take, roughly, in a figure of this width."""
    of_notes = sum(len(_lines(note, NOTE_LETTERS, width)) for note in notes)
    of_title = 1.3 * len(_lines(title, TITLE_LETTERS, width))
    return 0.3 + LINE * (of_title + of_notes) + _legend_height(names, width)


def _lines(text: str, letters: int, width: float) -> list[str]:
    """Break a text of which so many letters fit into one column's width."""
    return wrap(text, int(letters * width / COLUMN_WIDTH), break_on_hyphens=False)


def _legend_height(names: Sequence[str], width: float) -> float:
    return 0.1 + 1.15 * LINE * -(-len(names) // _legend_columns(names, width)) if names else 0.0


def _legend_columns(names: Sequence[str], width: float) -> int:
    widest = max(map(len, names)) + 9
    return max(1, min(len(names), int(LEGEND_LETTERS * width / COLUMN_WIDTH) // widest))
