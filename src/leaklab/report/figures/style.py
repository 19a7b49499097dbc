"""One look for all figures, and files whose bytes are the same in every run."""

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib as mpl
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from PIL import Image, ImageChops, ImageStat

from leaklab.records.files import atomic

PAGE_WIDTH = 7.0
SMALLEST_FONT = 8
DOTS_PER_INCH = 160
RASTER_DOTS_PER_INCH = 75  # of surfaces and maps in a pdf, whose lines and letters stay lines
PALETTE_ERROR = 0.5  # of 255: largest mean error of a color channel for which a png gets a palette
FOOT_MARGIN, FOOT_LINE, FOOT_LETTERS = 0.1, 0.14, 16  # inches, inches, letters in an inch
DECIMALS = 9  # of a share of the figure: a millionth of a dot
# Okabe and Ito's colors, which people with any of the common color-vision deficiencies tell apart better than those of
# seaborn's palette "colorblind"; yellow comes last because it is faint on white
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#F0E442")
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


def save(figure: Figure, png: Path | None = None, pdf: Path | None = None, foot: str = "") -> None:
    """Write a figure as png and pdf, each as a whole or not at all, with the same bytes for the same figure.

    Args:
        figure: what to draw.
        png: target, at 160 dots per inch; None leaves it out.
        pdf: target, with embedded TrueType fonts; None leaves it out.
        foot: a line or two below the figure, which moves nothing in it; empty for none.
    """
    # matplotlib would note its version and the time
    undated: list[tuple[Path | None, str, dict[str, None]]] = [
        (png, "png", {"Software": None}),
        (pdf, "pdf", {"CreationDate": None, "Creator": None, "Producer": None}),
    ]
    with styled():
        _settle(figure)
        page = _with_foot(figure, foot)
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


def _with_foot(figure: Figure, foot: str) -> Bbox | None:
    """Write the foot under the figure's lower edge; return the page that holds both, None for the figure alone."""
    if not foot:
        return None
    width, height = figure.get_size_inches()
    lines = textwrap.wrap(foot, int((width - 2 * FOOT_MARGIN) * FOOT_LETTERS))
    figure.text(
        FOOT_MARGIN / width, 0, "\n".join(lines), fontsize=SMALLEST_FONT, color=QUIET, va="top", linespacing=1.2
    )
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
