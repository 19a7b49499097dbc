"""A result table as a grid: which cell stands where, what was printed for it, and which cells are best and worst.

All table renderers (text, page, figure) draw this grid; none of them knows an item.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from leaklab.records.errors import UserError
from leaklab.records.layouts import TableLayout
from leaklab.report.judge.comparison import Comparison
from leaklab.report.numbers.gaps import gaps, word_of
from leaklab.report.numbers.places import Place, in_order, labels_of, place_of
from leaklab.report.numbers.results import AS_DESCRIBED, INDEX, PAPER, UNMARKED, ResultRow, ResultTable, identity
from leaklab.report.numbers.signs import MARKS, MINUS, NONE

Mark = Literal["best", "worst", ""]
# in place of a difference, where print is unstable and only the spread is judged
SPREADS = {"yes": "unstable", "no": "stable here"}


@dataclass(frozen=True)
class Cell:
    """One cell.

    Attributes:
        result: the regenerated number, None where the table has none.
        text: it, formatted; where there is none, why (``not run``), or ``–``.
        printed: the printed number, formatted; empty where nothing was printed.
        difference: regenerated minus printed, formatted with its sign, or in words where the spread is compared;
            empty where not compared.
        delta: the same as a number.
        within: of the comparison; empty where there is none.
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
        notes: how many values stand behind a number; what the results lack, and why.
    """

    row_titles: tuple[str, ...]
    column_titles: tuple[str, ...]
    row_labels: tuple[tuple[str, ...], ...]
    column_labels: tuple[tuple[str, ...], ...]
    cells: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

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

    Raises:
        UserError: two numbers fall into one cell, or a row lacks a key of the table.
    """
    keys = (*spec.rows, *spec.columns)
    shown = [
        row
        for row in results.select(attackers=spec.attackers, variant=AS_DESCRIBED).rows
        if row.metric in spec.metrics and set(row.aside) <= set(keys) and (INDEX in keys or not row.is_point)
    ]
    beside = {(identity(c.row), c.metric): c for c in comparisons if c.metric in spec.metrics}
    known = {(identity(row.row), row.metric) for row in shown}
    missing = [_empty(c, keys) for key, c in beside.items() if key not in known]
    placed = _place(spec, [*shown, *missing])
    rows = list(dict.fromkeys(row for row, _ in placed))
    columns = list(dict.fromkeys(column for _, column in placed))
    rows, columns = (
        in_order(spec, spec.metrics, keys, found) for keys, found in ((spec.rows, rows), (spec.columns, columns))
    )
    marks = _marks(spec, shown)
    return Grid(
        row_titles=tuple(spec.title(key) for key in spec.rows),
        column_titles=tuple(spec.title(key) for key in spec.columns),
        row_labels=tuple(labels_of(spec, spec.rows, row) for row in rows),
        column_labels=tuple(labels_of(spec, spec.columns, column) for column in columns),
        cells=tuple(tuple(_cell(spec, placed.get((row, column)), beside, marks) for column in columns) for row in rows),
        notes=(*_counts(shown), *gaps(results)),
    )


def heading(title: str, label: str, joined: str = " ") -> str:
    """Return a column's heading, ``title label``; a metric's name needs no title."""
    return label if title == "metric" else f"{title}{joined}{label}"


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


def _counts(rows: Iterable[ResultRow]) -> tuple[str, ...]:
    """Return one sentence on how many values, and independent ones, stand behind the numbers."""
    sampled = [(row.n, row.clusters) for row in rows if row.value is not None and row.n and row.clusters]
    if not sampled:
        return ()
    values, clusters = (_span(counts) for counts in zip(*sampled, strict=True))
    return (f"behind a number: {values} values of {clusters} independent updates or seeds",)


def _span(counts: tuple[int, ...]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"


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
    delta = found.difference if found and not by_spread else None
    return Cell(
        result=row,
        text=word_of(row) or NONE if row.shown is None else spec.number(row.metric, row.shown, row.std),
        printed=spec.number(row.metric, found.printed, found.printed_std) if found else "",
        difference=SPREADS.get(found.within, "") if found and by_spread else _signed(spec, row.metric, delta),
        delta=delta,
        within=found.within if found else "",
        mark=marks.get(id(row), ""),
    )


def _signed(spec: TableLayout, metric: str, delta: float | None) -> str:
    if delta is None:
        return ""
    text = spec.number(metric, abs(delta), None)
    return f"{MINUS if delta < 0 else '+'}{text}"
