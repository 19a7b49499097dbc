"""How lines are told apart without color, and the parts that figures of curves and of paths share."""

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from leaklab.report.figures.style import PALETTE, QUIET, SMALLEST_FONT

# narrow on purpose: on a phone, 360 points wide, letters keep their size
COLUMN_WIDTH = 5.0
NOTE_LETTERS = 78
LEGEND_LETTERS = 80
TITLE_LETTERS = 58
LINE = SMALLEST_FONT * 1.35 / 72
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.4)), (0, (6, 1.5, 1.5, 1.5)), (0, (3, 1, 1, 1, 1, 1)))
# one more than colors, so that a color that comes again has another sign
SIGNS = ("o", "s", "^", "D", "v", "P", "X", "*", "p")


@dataclass(frozen=True)
class Stroke:
    """Color, dashes and marker of one line; each of them alone tells the first lines apart."""

    color: str
    dashes: Any
    marker: str


def stroke(place: int) -> Stroke:
    """Return the stroke of the line at a place among the lines."""
    return Stroke(PALETTE[place % len(PALETTE)], DASHES[place % len(DASHES)], SIGNS[place % len(SIGNS)])


def with_unit(title: str, unit: str) -> str:
    """Return ``test accuracy (%)``; a title that names the unit stays as it is."""
    return f"{title} ({unit})" if unit and unit not in title else title


def finish(figure: Figure, title: str, handles: Sequence[Any], notes: Sequence[str]) -> None:
    """Add the title above, the legend below the panels and the notes below all."""
    width, height = figure.get_figwidth(), figure.get_figheight()
    figure.suptitle("\n".join(_lines(title, TITLE_LETTERS, width)), x=0.012, ha="left", fontweight="bold")
    lines = [line for note in notes for line in _lines(note, NOTE_LETTERS, width)]
    for_notes = LINE * len(lines) + 0.06 if lines else 0.0
    share = (for_notes + _legend_height(handles, width)) / height
    engine = figure.get_layout_engine()
    assert isinstance(engine, ConstrainedLayoutEngine)
    engine.set(rect=(0, share, 1, 1 - share))
    figure.text(0.012, 0.04 / height, "\n".join(lines), fontsize=SMALLEST_FONT, color=QUIET, va="bottom",
                linespacing=1.25)  # fmt: skip
    if handles:
        legend = figure.legend(handles=handles, loc="lower left", ncols=_legend_columns(handles, width),
                               handlelength=3.2, bbox_to_anchor=(0, for_notes / height))  # fmt: skip
        # its room is reserved above; the engine would make room inside the panels
        legend.set_in_layout(False)


def extra_height(title: str, handles: Sequence[Any], notes: Sequence[str], width: float) -> float:
    """Return the inches that title, legend and notes take, roughly, in a figure of this width."""
    of_notes = sum(len(_lines(note, NOTE_LETTERS, width)) for note in notes)
    of_title = 1.3 * len(_lines(title, TITLE_LETTERS, width))
    return 0.3 + LINE * (of_title + of_notes) + _legend_height(handles, width)


def _lines(text: str, letters: int, width: float) -> list[str]:
    """Break a text of which so many letters fit into one column's width."""
    return wrap(text, int(letters * width / COLUMN_WIDTH), break_on_hyphens=False)


def _legend_height(handles: Sequence[Any], width: float) -> float:
    return 0.1 + 1.15 * LINE * -(-len(handles) // _legend_columns(handles, width)) if handles else 0.0


def _legend_columns(handles: Sequence[Any], width: float) -> int:
    widest = max(len(str(handle.get_label())) for handle in handles) + 9
    return max(1, min(len(handles), int(LEGEND_LETTERS * width / COLUMN_WIDTH) // widest))
