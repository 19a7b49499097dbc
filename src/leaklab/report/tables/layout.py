"""A result table as a grid: which cell stands where, what was printed for it, and which cells are best and worst.

All table renderers (text, page, figure) draw this grid; none of them knows an item.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from leaklab.items.layouts import TableLayout
from leaklab.records.errors import UserError
from leaklab.report.judge.comparison import Comparison
from leaklab.report.numbers.results import (
    AS_DESCRIBED,
    INDEX,
    PAPER,
    SELECTION,
    UNMARKED,
    ResultRow,
    ResultTable,
    identity,
)
from leaklab.report.numbers.words import MARKS, MINUS, NONE, Place, gaps, in_order, labels_of, place_of
from leaklab.report.tables import notes

Mark = Literal["best", "worst", ""]


@dataclass(frozen=True)
class Cell:
    """One cell.

    Attributes:
        result: the regenerated number, None where the table has none.
        text: it, formatted; where there is none, why (``not run``), or ``–``.
        printed: the printed number, formatted; empty where nothing was printed.
        difference: regenerated minus printed, formatted with its sign; empty where not compared.
        delta: the same as a number.
        within: of the comparison; empty where there is none, and where only the spread is compared.
        mark: best or worst of its group.
    """

    result: ResultRow | None = None
    text: str = NONE
    printed: str = ""
    difference: str = ""
    delta: float | None = None
    within: str = ""
    mark: Mark = ""

    @property
    def symbol(self) -> str:
        """The mark as a symbol, so that it does not depend on colour or weight."""
        return MARKS[self.mark]


@dataclass(frozen=True)
class Grid:
    """A laid out table.

    Attributes:
        row_titles: shown names of the row keys.
        column_titles: shown names of the column keys.
        row_labels: for each row, the labels of its keys.
        column_labels: for each column, the labels of its keys.
        cells: rows x columns.
        notes: lines of the table's own, what stands behind a number, what was left out or lacks, and why.
    """

    row_titles: tuple[str, ...]
    column_titles: tuple[str, ...]
    row_labels: tuple[tuple[str, ...], ...]
    column_labels: tuple[tuple[str, ...], ...]
    cells: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    @property
    def keyed(self) -> tuple[str, ...]:
        """Titles of the columns whose headings are numbers, which do not say themselves what they are."""
        return tuple(
            title
            for depth, title in enumerate(self.column_titles)
            if any(notes.heading(title, labels[depth]) != labels[depth] for labels in self.column_labels)
        )

    @property
    def differing(self) -> bool:
        """Whether some cell has a difference from print."""
        return any(cell.difference for row in self.cells for cell in row)

    @property
    def marked(self) -> bool:
        """Whether some cell is the best or worst of its group."""
        return any(cell.mark for row in self.cells for cell in row)

    @property
    def compared(self) -> bool:
        """Whether some cell has a printed number beside it."""
        return any(cell.printed for row in self.cells for cell in row)


def lay_out(spec: TableLayout, results: ResultTable, comparisons: Iterable[Comparison] = ()) -> Grid:
    """Lay out the results of one item.

    Args:
        spec: which keys go where.
        results: the item's results.
        comparisons: the item's comparisons; printed cells that were not run get an empty cell with the printed
            number.

    A column without any number is left out, as long as another has one, and named in the notes.

    Raises:
        UserError: two numbers fall into one cell, or a row lacks a key of the table.
    """
    keys = (*spec.rows, *spec.columns)
    named = {*spec.metrics, *spec.below}
    shown = [
        row
        for row in results.select(attackers=spec.attackers, variant=AS_DESCRIBED).rows
        if row.metric in named and set(row.aside) <= set(keys) and (INDEX in keys or not row.is_point)
    ]
    lines = notes.lines(spec, (row for row in shown if row.metric in spec.below))
    shown = [row for row in shown if row.metric not in spec.below]
    beside = {
        (identity(c.row), c.metric): c for c in comparisons if c.metric in spec.metrics and c.metric not in spec.below
    }
    known = {(identity(row.row), row.metric) for row in shown}
    missing = [_empty(c, keys) for key, c in beside.items() if key not in known]
    placed = _place(spec, [*shown, *missing])
    rows = list(dict.fromkeys(row for row, _ in placed))
    columns = list(dict.fromkeys(column for _, column in placed))
    rows, columns = (
        in_order(spec, spec.metrics, keys, found) for keys, found in ((spec.rows, rows), (spec.columns, columns))
    )
    columns, empty = _with_numbers(columns, placed)
    marks = _marks(spec, shown)
    cells = tuple(tuple(_cell(spec, placed.get((row, column)), beside, marks) for column in columns) for row in rows)
    references = _references(spec, results, columns)
    spreads = any(cell.delta is not None and not cell.within for row in cells for cell in row)
    return Grid(
        row_titles=tuple(spec.title(key) for key in spec.rows),
        column_titles=tuple(spec.title(key) for key in spec.columns),
        row_labels=(*(labels_of(spec, spec.rows, row) for row in rows), *references),
        column_labels=tuple(labels_of(spec, spec.columns, column) for column in columns),
        cells=(*cells, *references.values()),
        notes=(
            *lines,
            *notes.basis(spec, shown),
            *([notes.SPREAD] if spreads else []),
            *notes.left_out([" / ".join(labels_of(spec, spec.columns, column)) for column in empty]),
            *gaps(results, spec.metrics),
        ),
    )


def _with_numbers(
    columns: list[Place], placed: Mapping[tuple[Place, Place], ResultRow]
) -> tuple[list[Place], list[Place]]:
    """Return the columns that have a number and those that have none; without any number all stay."""
    having = {column for (_, column), row in placed.items() if row.value is not None} or set(columns)
    return [c for c in columns if c in having], [c for c in columns if c not in having]


def _references(
    spec: TableLayout, results: ResultTable, columns: list[Place]
) -> dict[tuple[str, ...], tuple[Cell, ...]]:
    """Return label -> cells of the rows that no attacker made; a kind that was not measured has none."""
    found: dict[tuple[str, ...], tuple[Cell, ...]] = {}
    for kind, label in spec.references.items():
        own = [
            row
            for row in results.select(attackers=(UNMARKED,), variant=AS_DESCRIBED).rows
            if row.row.get(SELECTION) == kind and row.metric in spec.metrics
        ]
        if own:
            by_column = [[row for row in own if place_of(row, spec.columns) == column] for column in columns]
            found[label, *[""] * (len(spec.rows) - 1)] = tuple(_range(spec, rows) for rows in by_column)
    return found


def _range(spec: TableLayout, rows: list[ResultRow]) -> Cell:
    texts = [notes.text_of(spec, row) for row in sorted(rows, key=lambda row: row.shown or 0) if row.shown is not None]
    # of a span each end has its own spread: neither is that of the span
    values = dict.fromkeys(text.partition(" ±")[0] for text in (*texts[:1], *texts[-1:]))
    return Cell(text=" to ".join(values) if len(values) > 1 else texts[0]) if texts else Cell()


def _empty(comparison: Comparison, keys: tuple[str, ...]) -> ResultRow:
    # what is printed is the work of the paper's attacker
    attacker = PAPER if "attacker" in keys else UNMARKED
    return ResultRow(comparison.paper, comparison.item, comparison.row, comparison.metric, None, attacker=attacker)


def _place(spec: TableLayout, rows: list[ResultRow]) -> dict[tuple[Place, Place], ResultRow]:
    placed: dict[tuple[Place, Place], ResultRow] = {}
    for row in rows:
        place = place_of(row, spec.rows), place_of(row, spec.columns)
        if place in placed:
            raise UserError(f"{row.paper} {row.item}: two numbers fall into one cell {place}: name more keys in table")
        placed[place] = row
    return placed


def _marks(spec: TableLayout, rows: list[ResultRow]) -> dict[int, Mark]:
    """Return the mark of each marked row by its id.

    Ties are all marked; groups of equal values, and groups with a number of a single update or seed, not at all.
    """
    within = spec.rows if spec.mark_within is None else spec.mark_within
    groups: dict[Any, list[ResultRow]] = {}
    for row in rows:
        if row.value is not None and row.better:
            groups.setdefault((row.metric, row.attacker, place_of(row, within)), []).append(row)
    marks: dict[int, Mark] = {}
    for group in groups.values():
        values = [row.value for row in group if row.value is not None]
        high, low = max(values), min(values)
        best, worst = (high, low) if group[0].better == "higher" else (low, high)
        if high > low and all(row.clusters is None or row.clusters > 1 for row in group):
            marks |= {id(row): "worst" for row in group if row.value == worst}
            marks |= {id(row): "best" for row in group if row.value == best}
    return marks


def _cell(
    spec: TableLayout,
    row: ResultRow | None,
    beside: Mapping[tuple[str, str], Comparison],
    marks: Mapping[int, Mark],
) -> Cell:
    if row is None:
        return Cell()
    found = beside.get((identity(row.row), row.metric)) if row.attacker in (PAPER, UNMARKED) and not row.aside else None
    by_spread = found is not None and found.class_name == "spread"
    delta = found.difference if found else None
    return Cell(
        result=row,
        text=notes.text_of(spec, row),
        printed=spec.number(row.metric, found.printed, found.printed_std) if found else "",
        difference=_signed(spec, row.metric, delta),
        delta=delta,
        within=found.within if found and not by_spread else "",
        mark=marks.get(id(row), ""),
    )


def _signed(spec: TableLayout, metric: str, delta: float | None) -> str:
    if delta is None:
        return ""
    text = spec.number(metric, abs(delta), None)
    return f"{MINUS if delta < 0 else '+'}{text}"
