r"""Figures made of pictures: originals first, then one column per attack, defense and attacker, scores below.

The renderer knows nothing of attacks: a column's heading has any number of levels, separated by line breaks, and
neighbors that share a level share its label (``"DLG\nno defense"`` beside ``"DLG\nLRP"``).
"""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray
from torch import Tensor

from leaklab.report.figures.style import FAINT, INK, PAGE_WIDTH, QUIET, SMALLEST_FONT, styled

LARGEST_PICTURE = 1.15
SMALLEST_PICTURE = 0.66
NARROWEST = 3.4
GAP = 0.08
SPACE = 0.06
LINE = SMALLEST_FONT * 1.25 / 72
# part of a line that is above its baseline
ASCENT = 0.8
MARGIN = 0.06
# mean advance of the font relative to its size, plain and bold; only decides where lines are broken
ADVANCE = {"normal": 0.58, "bold": 0.68}
LABEL_CHARACTERS = 14
SMALLEST_PIXELS = 112


@dataclass(frozen=True)
class Picture:
    """One cell.

    Attributes:
        image: [C, H, W] with C 1 or 3, on the [0, 1] scale (clamped when drawn); None draws an empty box.
        scores: short lines below it, e.g. ``("31.2 dB", "0.04")``; for an empty box the reason stands inside.
    """

    image: Tensor | None
    scores: tuple[str, ...] = ()


@dataclass(frozen=True)
class GridRow:
    """One line of the grid.

    Attributes:
        label: stands before the pictures.
        pictures: one per column.
        section: heading of the rows from here on, written once above the first row that has it; empty for none.
    """

    label: str
    pictures: tuple[Picture, ...]
    section: str = ""


@dataclass(frozen=True)
class _Layout:
    """Sizes in inches; everything is placed by hand, because text and pictures must line up to the point."""

    width: float
    label: float
    picture: float
    aspect: float
    heading_lines: tuple[int, ...]
    score_lines: tuple[int, ...]
    sections: tuple[str, ...]

    @property
    def heading(self) -> float:
        return sum(self.heading_lines) * LINE + SPACE * len(self.heading_lines)

    @property
    def height(self) -> float:
        """Height of a picture."""
        return self.picture * self.aspect

    def above(self, index: int) -> float:
        """Height of the heading of the section that begins with a row."""
        return LINE + SPACE + GAP if self.sections[index] else 0.0

    def row(self, index: int) -> float:
        return self.above(index) + self.height + self.score_lines[index] * LINE + SPACE + GAP

    @property
    def block(self) -> float:
        return self.heading + sum(self.row(i) for i in range(len(self.score_lines))) + SPACE

    def left(self, column: int) -> float:
        return MARGIN + self.label + column * (self.picture + GAP)


def image_grid(
    rows: Sequence[GridRow], columns: Sequence[str], note: str = "", width: float = PAGE_WIDTH, originals: int = 1
) -> Figure:
    """Draw a grid of pictures that can be read at page width; save it with ``style.save``.

    Where the columns do not fit beside each other, the grid continues below and repeats the originals.

    Args:
        rows: the lines of the grid, at least one.
        columns: headings, one per picture of a row; levels separated by line breaks, the outermost first.
        note: legend below the grid: what the scores are, what was chosen by whom.
        width: of the figure in inches.
        originals: how many leading columns are repeated when the grid continues below.

    Raises:
        ValueError: no rows, or a row whose number of pictures differs from the number of columns.
    """
    if not rows or any(len(row.pictures) != len(columns) for row in rows):
        raise ValueError(f"each row of an image grid needs {len(columns)} pictures, and there must be a row")
    label = _label_width(rows, width)
    space = width - label - 2 * MARGIN
    blocks = list(_blocks(len(columns), int((space + GAP) / (_smallest_picture(rows, columns) + GAP)), originals))
    widest = max(len(block) for block in blocks)
    picture = min(LARGEST_PICTURE, (space + GAP) / widest - GAP)
    width = min(width, max(NARROWEST, label + 2 * MARGIN + widest * (picture + GAP) - GAP))
    layouts = [_layout(rows, [columns[i] for i in block], width, label, picture) for block in blocks]
    legend = textwrap.wrap(note, _characters(width - 2 * MARGIN))
    height = sum(layout.block for layout in layouts) + len(legend) * LINE + 2 * MARGIN
    with styled():
        figure = Figure(figsize=(width, height))
        canvas = figure.add_axes((0, 0, 1, 1))
        canvas.set(xlim=(0, width), ylim=(height, 0))
        canvas.axis("off")
        top = MARGIN
        for block, layout in zip(blocks, layouts, strict=True):
            _draw_headings(canvas, [columns[i].split("\n") for i in block], layout, top)
            _draw_rows(figure, canvas, rows, block, layout, top + layout.heading)
            top += layout.block
        _write(canvas, MARGIN, top, legend, ha="left", color=QUIET)
    return figure


def _characters(inches: float, weight: str = "normal") -> int:
    return max(4, int(inches * 72 / (SMALLEST_FONT * ADVANCE[weight])))


def _inches(text: str, weight: str = "normal") -> float:
    return len(text) * SMALLEST_FONT * ADVANCE[weight] / 72


def _label_width(rows: Sequence[GridRow], width: float) -> float:
    longest = max((_inches(line) for row in rows for line in _lines(row.label, LABEL_CHARACTERS)), default=0)
    return min(longest + 0.1, width / 4) if longest else 0


def _smallest_picture(rows: Sequence[GridRow], columns: Sequence[str]) -> float:
    """Return the width at which the scores and the words of the headings do not run into their neighbors."""
    widths = [_inches(line) for row in rows for p in row.pictures if p.image is not None for line in p.scores]
    for heading in columns:
        levels = heading.split("\n")
        for level, text in enumerate(levels):
            widths += [_inches(word, _weight(level, len(levels))) for word in text.split()]
    return max([SMALLEST_PICTURE, *(width - GAP / 2 for width in widths)])


def _lines(text: str, characters: int) -> list[str]:
    return [line for part in text.split("\n") for line in textwrap.wrap(part, characters, break_long_words=False)]


def _blocks(columns: int, fitting: int, originals: int) -> Iterator[list[int]]:
    """Yield the columns of each block, at most ``fitting``; all blocks after the first repeat the originals."""
    others = list(range(originals, columns))
    count = max(1, -(-len(others) // max(fitting - originals, 1)))
    size = max(1, -(-len(others) // count))
    for start in range(0, max(1, len(others)), size):
        yield [*range(min(originals, columns)), *others[start : start + size]]


def _layout(rows: Sequence[GridRow], headings: Sequence[str], width: float, label: float, picture: float) -> _Layout:
    shapes = [p.image.shape for row in rows for p in row.pictures if p.image is not None]
    return _Layout(
        width=width,
        label=label,
        picture=picture,
        aspect=max((height / side for _, height, side in shapes), default=1.0),
        heading_lines=_heading_lines([heading.split("\n") for heading in headings], picture),
        score_lines=tuple(max((len(p.scores) for p in row.pictures if p.image is not None), default=0) for row in rows),
        sections=tuple(_begun(rows)),
    )


def _begun(rows: Sequence[GridRow]) -> Iterator[str]:
    """Yield for each row the section that begins with it, else nothing."""
    previous = ""
    for row in rows:
        yield row.section if row.section != previous else ""
        previous = row.section


def _heading_lines(headings: Sequence[Sequence[str]], picture: float) -> tuple[int, ...]:
    """Return how many printed lines each level of the headings needs."""
    needed = [1] * max(len(levels) for levels in headings)
    for level, text, first, last in _spans(headings):
        inches = (last - first + 1) * (picture + GAP) - GAP
        needed[level] = max(needed[level], len(_heading(text, inches, _weight(level, len(needed)))))
    return tuple(needed)


def _heading(text: str, inches: float, weight: str) -> list[str]:
    return _lines(text, _characters(inches + GAP / 2, weight))


def _weight(level: int, depth: int) -> str:
    return "bold" if level < depth - 1 else "normal"


def _spans(headings: Sequence[Sequence[str]]) -> Iterator[tuple[int, str, int, int]]:
    """Yield (level, text, first column, last column); short headings stand at the lowest levels."""
    depth = max(len(levels) for levels in headings)
    padded = [[*[""] * (depth - len(levels)), *levels] for levels in headings]
    for level in range(depth):
        # only columns that share all outer levels may share this one; the innermost level names single columns
        keys = [tuple(levels[: level + 1]) if level < depth - 1 else (i,) for i, levels in enumerate(padded)]
        for _, group in groupby(range(len(padded)), key=keys.__getitem__):
            members = list(group)
            if padded[members[0]][level]:
                yield level, padded[members[0]][level], members[0], members[-1]


def _draw_headings(canvas: Axes, headings: Sequence[Sequence[str]], layout: _Layout, top: float) -> None:
    depth = len(layout.heading_lines)
    for level, text, first, last in _spans(headings):
        bottom = top + sum(layout.heading_lines[: level + 1]) * LINE + SPACE * level
        left, right = layout.left(first), layout.left(last) + layout.picture
        lines = _heading(text, right - left, _weight(level, depth))
        start = bottom - len(lines) * LINE
        _write(canvas, (left + right) / 2, start, lines, ha="center", weight=_weight(level, depth))
        if level < depth - 1:
            canvas.plot([left, right], [bottom + SPACE / 2] * 2, color=FAINT, linewidth=0.6, solid_capstyle="butt")


def _draw_rows(
    figure: Figure, canvas: Axes, rows: Sequence[GridRow], block: Sequence[int], layout: _Layout, top: float
) -> None:
    right = layout.left(len(block) - 1) + layout.picture
    for index, row in enumerate(rows):
        below = top + layout.above(index)
        if layout.sections[index]:
            _write(canvas, MARGIN, top + GAP, [layout.sections[index]], ha="left", weight="bold")
            canvas.plot([MARGIN, right], [below - SPACE / 2] * 2, color=FAINT, linewidth=0.6, solid_capstyle="butt")
        label = _lines(row.label, LABEL_CHARACTERS)
        _write(canvas, MARGIN, below + (layout.height - len(label) * LINE) / 2, label, ha="left")
        for place, column in enumerate(block):
            _draw_picture(figure, canvas, row.pictures[column], layout, (layout.left(place), below))
        top += layout.row(index)


def _draw_picture(figure: Figure, canvas: Axes, picture: Picture, layout: _Layout, corner: tuple[float, float]) -> None:
    left, top = corner
    middle, bottom = left + layout.picture / 2, top + layout.height
    if picture.image is None:
        box = Rectangle(corner, layout.picture, layout.height, facecolor="#F2F2F2", edgecolor=FAINT, linewidth=0.5)
        canvas.add_patch(box)
        reason = [line for text in picture.scores for line in _lines(text, _characters(layout.picture))]
        _write(canvas, middle, (top + bottom - len(reason) * LINE) / 2, reason, ha="center", color=QUIET)
        return
    page = figure.get_figheight()
    frame = (left / layout.width, 1 - bottom / page, layout.picture / layout.width, layout.height / page)
    axes = figure.add_axes(frame, anchor="S")
    axes.imshow(_pixels(picture.image), cmap="gray", vmin=0, vmax=1, interpolation="nearest", aspect="equal")
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(visible=True, linewidth=0.4, color=FAINT)
    _write(canvas, middle, bottom + SPACE / 2, picture.scores, ha="center")


def _pixels(image: Tensor) -> NDArray[np.float64]:
    """Return [H, W] or [H, W, 3] in [0, 1], small images enlarged by whole factors.

    The enlargement keeps pixels square and sharp in viewers that smooth the images of a pdf.
    """
    array = image.detach().double().cpu().nan_to_num(0.5).clamp(0, 1).permute(1, 2, 0).numpy()
    factor = -(-SMALLEST_PIXELS // max(array.shape[:2]))
    enlarged: NDArray[np.float64] = array.repeat(factor, axis=0).repeat(factor, axis=1)
    return enlarged[:, :, 0] if enlarged.shape[2] == 1 else enlarged


def _write(
    canvas: Axes, x: float, top: float, lines: Sequence[str], ha: str, color: str = INK, weight: str = "normal"
) -> None:
    """Write lines below ``top``, each on its own baseline, so that neighbors are level whatever their letters."""
    for number, line in enumerate(lines):
        baseline = top + (number + ASCENT) * LINE
        canvas.text(x, baseline, line, fontsize=SMALLEST_FONT, ha=ha, va="baseline", color=color, weight=weight)
