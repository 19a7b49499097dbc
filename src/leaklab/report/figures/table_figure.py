"""A laid out table as a figure: each number with the printed one beside it, and a tint for the difference."""

from collections.abc import Sequence
from itertools import groupby
from textwrap import wrap

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextToPath

from leaklab.report.figures.style import DOTS_PER_INCH, INK, PAGE_WIDTH, QUIET, SMALLEST_FONT, styled
from leaklab.report.numbers.words import WITHIN
from leaklab.report.tables.layout import Cell, Grid
from leaklab.report.tables.notes import heading
from leaklab.report.tables.tables import sentence

# mean advance of the font in inches: digits and signs, small letters, bold small letters
CHARACTER, LETTER, BOLD_LETTER = (SMALLEST_FONT * part / 72 for part in (0.63, 0.53, 0.58))
LINE = SMALLEST_FONT * 1.3 / 72
TITLE_SIZE = SMALLEST_FONT + 2
TITLE_LINE = TITLE_SIZE * 1.3 / 72
HEAD = 0.23
GAP = 0.14
MARGIN = 0.05
NARROWEST_CELL = 0.56
# of a single column, whose numbers would else stand far from what they belong to
WIDEST_CELL = 1.4
TINT = "PuOr"

Line = tuple[str, str, str]  # text, weight, color


def draw(grid: Grid, title: str, full_tint: float = 1.0) -> Figure:
    """Draw the table at page width; a table that does not fit into it becomes wider.

    Args:
        grid: the laid out table.
        title: shown above it.
        full_tint: difference (in the metric's unit) at which the tint reaches full strength.

    Returns:
        a figure to be saved with ``style.save``.
    """
    with styled():
        return _Drawing(grid, title, full_tint).figure


class _Drawing:
    """One drawing in inches, the origin at the top left, y downwards."""

    def __init__(self, grid: Grid, title: str, full_tint: float):
        self.grid = grid
        self.label_widths = _label_widths(grid)
        self.label_width = sum(self.label_widths)
        columns = max(len(grid.column_labels), 1)
        share = (PAGE_WIDTH - 2 * MARGIN - self.label_width) / columns
        share = min(share, WIDEST_CELL) if columns == 1 else share
        self.cell_width = max(NARROWEST_CELL, share, _longest_word(grid) * BOLD_LETTER + GAP)
        self.contents = [[_lines(cell, self.cell_width) for cell in row] for row in grid.cells]
        most = max((len(lines) for row in self.contents for lines in row), default=1)
        self.row_height = LINE * most + 0.1
        self.width = self.label_width + self.cell_width * columns
        self.page = max(self.width, PAGE_WIDTH - 2 * MARGIN)
        titles = wrap(title, int(self.page / (BOLD_LETTER * TITLE_SIZE / SMALLEST_FONT)))
        self.head_top = 0.36 + TITLE_LINE * (len(titles) - 1)
        self.body_top = self.head_top + HEAD * len(grid.column_titles) + 0.05
        self.body_end = self.body_top + self.row_height * len(grid.row_labels)
        self.notes = _notes(grid, full_tint, int(self.page / LETTER))
        self.height = self.body_end + 0.1 + LINE * len(self.notes) + 0.05
        self.tint = Normalize(-full_tint, full_tint, clip=True)
        self.figure = Figure(figsize=(self.page + 2 * MARGIN, self.height), dpi=DOTS_PER_INCH)
        self.axes = self._axes()
        for place, line in enumerate(titles):
            self._text(0, 0.15 + TITLE_LINE * place, line, weight="bold", size=TITLE_SIZE)
        self._head()
        self._body()
        for place, note in enumerate(self.notes):
            self._text(0, self.body_end + 0.17 + LINE * place, note, color=QUIET)

    def _axes(self) -> Axes:
        axes = self.figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_xlim(-MARGIN, self.page + MARGIN)
        axes.set_ylim(self.height, 0)
        axes.set_axis_off()
        return axes

    def _text(self, x: float, y: float, text: str, weight: str = "normal", color: str = INK, align: str = "left",
              size: float = SMALLEST_FONT) -> None:  # fmt: skip
        self.axes.text(x, y, text, fontsize=size, fontweight=weight, color=color, ha=align, va="center")

    def _rule(self, y: float, thick: float, start: float = 0.0, end: float | None = None) -> None:
        self.axes.plot([start, self.width if end is None else end], [y, y], color=INK, linewidth=thick)

    def _left(self, column: int) -> float:
        return self.label_width + self.cell_width * column

    def _head(self) -> None:
        self._rule(self.head_top - 0.03, 1.2)
        last = len(self.grid.column_titles) - 1
        for depth, title in enumerate(self.grid.column_titles):
            y = self.head_top + HEAD * (depth + 0.5)
            self._column_labels(depth, title, y, ruled=depth < last)
        y = self.head_top + HEAD * (last + 0.5)
        for place, name in enumerate(self.grid.row_titles):
            self._text(sum(self.label_widths[:place]), y, name, color=QUIET)
        self._rule(self.body_top - 0.03, 0.8)

    def _column_labels(self, depth: int, title: str, y: float, ruled: bool) -> None:
        start = 0
        prefixes = groupby(labels[: depth + 1] for labels in self.grid.column_labels)
        groups = [(prefix, len(list(group))) for prefix, group in prefixes]
        # named at all headings of a line or at none, as the notes name the keys too
        titled = all(
            len(heading(title, prefix[-1], " = ")) * BOLD_LETTER < self.cell_width * span for prefix, span in groups
        )
        for prefix, span in groups:
            width = self.cell_width * span
            text = heading(title, prefix[-1], " = ") if titled else prefix[-1]
            self._text(self._left(start) + width / 2, y, text, weight="bold", align="center")
            if ruled:
                self._rule(y + HEAD / 2 - 0.01, 0.5, self._left(start) + 0.06, self._left(start + span) - 0.06)
            start += span
        if title in self.grid.keyed and not titled:
            self._key(depth, title, y)

    def _key(self, depth: int, title: str, y: float) -> None:
        """Write a key before its headings, where they have no room for it and the titles of the rows leave some."""
        last = depth == len(self.grid.column_titles) - 1
        taken = sum(self.label_widths[:-1]) + len(self.grid.row_titles[-1]) * LETTER if last else 0.0
        if self.label_width - taken > (len(title) + 2) * LETTER:
            self._text(self.label_width - 0.04, y, f"{title} =", color=QUIET, align="right")

    def _body(self) -> None:
        previous: tuple[str, ...] = ()
        for place, (labels, cells) in enumerate(zip(self.grid.row_labels, self.grid.cells, strict=True)):
            top = self.body_top + self.row_height * place
            if place and labels[:-1] != previous[:-1]:
                self._rule(top, 0.9 if labels[0] != previous[0] else 0.35)
            self._row_labels(labels, previous, top + self.row_height / 2)
            for column, cell in enumerate(cells):
                self._cell(cell, self.contents[place][column], self._left(column), top)
            previous = labels
        self._rule(self.body_end, 1.2)

    def _row_labels(self, labels: tuple[str, ...], previous: tuple[str, ...], y: float) -> None:
        for depth, label in enumerate(labels):
            if depth == len(labels) - 1 or labels[: depth + 1] != previous[: depth + 1]:
                self._text(
                    sum(self.label_widths[:depth]), y, label, weight="normal" if depth or len(labels) == 1 else "bold"
                )

    def _cell(self, cell: Cell, lines: list[list[Line]], left: float, top: float) -> None:
        if cell.delta is not None:
            color = colormaps[TINT](self.tint(cell.delta), alpha=0.4)
            inset = 0.015
            self.axes.fill_between([left + inset, left + self.cell_width - inset], top + inset,
                                   top + self.row_height - inset, color=color, linewidth=0)  # fmt: skip
        start = top + (self.row_height - LINE * (len(lines) - 1)) / 2
        for place, parts in enumerate(lines):
            share = self.cell_width / len(parts)
            for number, (text, weight, color_name) in enumerate(parts):
                x = left + share * (number + 0.5)
                self._text(x, start + LINE * place, text, weight, color_name, "center")


def _lines(cell: Cell, width: float) -> list[list[Line]]:
    """Return the cell's lines: two where the cell is wide enough, else up to four."""
    weight = "bold" if cell.mark else "normal"
    own = f"{cell.text} {cell.symbol}".strip()
    difference = f"{cell.difference} {WITHIN.get(cell.within, '')}".strip()
    value, _, spread = cell.text.partition(" ±")
    printed = cell.printed.partition(" ±")[0]
    second: list[Line] = [(text, "normal", color) for text, color in ((printed, QUIET), (difference, INK)) if text]
    if (max(len(own), len(printed) + len(difference) + 2) + 1) * CHARACTER <= width:
        return [[(own, weight, INK)], *([second] if second else [])]
    # what stands for a missing number may be longer than a number
    words = value.split() if len(value) * CHARACTER > width else [value]
    *before, last = words or [""]
    first: list[list[Line]] = [[(word, weight, INK)] for word in before]
    first.append([(f"{last} {cell.symbol}".strip(), weight, INK)])
    return [*first, *([[(f"±{spread}", "normal", INK)]] if spread else []), *([line] for line in second)]


def _longest_word(grid: Grid) -> int:
    """Return the letters of the longest label right above the cells, which is never broken."""
    return max((len(labels[-1]) for labels in grid.column_labels if labels), default=0)


def _label_widths(grid: Grid) -> list[float]:
    """Return the inches of each column of labels: capitals and digits are wider than letters are on average."""
    columns = zip(grid.row_titles, *grid.row_labels, strict=True)
    several = len(grid.row_titles) > 1
    return [
        max(_inches(text, bold=several and not place) for text in column) + GAP for place, column in enumerate(columns)
    ]


def _inches(text: str, bold: bool) -> float:
    font = FontProperties(family="DejaVu Sans", size=SMALLEST_FONT, weight="bold" if bold else "normal")
    width, _, _ = TextToPath().get_text_width_height_descent(text, font, ismath=False)
    return float(width) / 72


def _notes(grid: Grid, full_tint: float, letters: int) -> list[str]:
    """Return lines of at most so many letters."""
    notes = []
    if grid.compared or _has_spread(grid):
        parts = [f"Columns: {' / '.join(grid.keyed)}."] if grid.keyed else []
        parts.append(f"Each cell: the regenerated value{' with its standard deviation' if _has_spread(grid) else ''}.")
        notes.append(" ".join([*parts, *(["Grey: printed."] if grid.compared else [])]))
    if grid.differing:
        notes.append(
            f"Then the difference, ✓ within tolerance; violet above print, orange below, full tint at ±{full_tint:g}."
        )
    if grid.marked:
        notes.append("▲ best, ▼ worst of its group.")
    return [
        *notes,
        *(line for note in merged(grid.notes) for line in wrap(sentence(note), letters, break_on_hyphens=False)),
    ]


def merged(notes: Sequence[str]) -> list[str]:
    """Return notes of which those that say the same of several columns are one: ``A; B: 3 seeds``."""
    names: dict[str, list[str]] = {}
    for note in notes:
        name, _, said = note.partition(": ")
        names.setdefault(said or name, []).append(name if said else "")
    return [": ".join(filter(None, ["; ".join(filter(None, own)), said])) for said, own in names.items()]


def _has_spread(grid: Grid) -> bool:
    return any("±" in cell.text for row in grid.cells for cell in row)
