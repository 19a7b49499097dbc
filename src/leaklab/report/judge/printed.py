"""The printed numbers beside results, with the tolerances that the items themselves ask for.

A paper that prints the best of several starts by the pixel error chooses with the truth. Its numbers are compared with
the rows of that choice (``selection``: ``oracle``); claims, pages and tables keep the attack's own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from leaklab.items.items import Item
from leaklab.records import files
from leaklab.records.config import parse, read_yaml
from leaklab.records.errors import UserError
from leaklab.records.record import Record
from leaklab.report.judge.claims import Check, value_in
from leaklab.report.judge.comparison import Comparison, compare
from leaklab.report.judge.evidence import Evidence
from leaklab.report.judge.indexed import Indexed
from leaklab.report.judge.tolerances import Tolerances
from leaklab.report.numbers.results import PAPER, RESTORE, SELECTION, ResultRow, ResultTable
from leaklab.report.numbers.words import NumberMissingError


@dataclass(frozen=True)
class Printed:
    """What is known of the papers' numbers: the files ``targets.csv`` and ``tolerances.yaml``."""

    numbers: ResultTable
    tolerances: Tolerances

    @classmethod
    def load(cls, targets: Path, tolerances: Path) -> "Printed":
        """Read both files."""
        return cls(ResultTable.read_printed(targets), Tolerances.load(tolerances))

    def beside(self, results: ResultTable, items: Iterable[Item]) -> tuple[Comparison, ...]:
        """Compare results with every printed number of the items that they belong to."""
        chosen = {(item.paper, item.item): item for item in items}
        own = ResultTable(tuple(row for row in self.numbers.rows if (row.paper, row.item) in chosen))
        choices: dict[tuple[str, str], dict[str, Any]] = {
            key: item.comparison.model_dump(by_alias=True, exclude_defaults=True)
            for key, item in chosen.items()
            if item.comparison
        }
        return compare(results, own, self.tolerances, choices)


Choices = Mapping[str, str]
"""Item, ``outpost/table3``, -> the selection that its paper printed."""


class PrintedChoices(Record):
    """The file ``config/papers/printed.yaml``.

    Attributes:
        selections: item -> the selection that its paper printed.
    """

    selections: dict[str, str]


def load_choices(path: Path) -> Choices:
    """Read ``config/papers/printed.yaml``.

    Raises:
        UserError: the file is missing or wrong.
    """
    return parse(PrintedChoices, read_yaml(path), path).selections


def as_printed(results: ResultTable, choices: Choices) -> ResultTable:
    """Return results with the guesses that were printed in the place of the attack's own.

    Of an item that names a selection only the rows of that selection stay with the paper's attacker, so that a cell
    without one is not compared with anything else.
    """
    return ResultTable(tuple(row for own in results.rows for row in _chosen(own, choices)))


def _chosen(row: ResultRow, choices: Choices) -> tuple[ResultRow, ...]:
    choice = choices.get(f"{row.paper}/{row.item}")
    if choice is None or row.attacker != PAPER:
        return (row,)
    if not row.aside:
        return ()
    if row.aside != (SELECTION,) or row.row[SELECTION] != choice:
        return (row,)
    return (replace(row, row={key: value for key, value in row.row.items() if key != SELECTION}),)


# Numbers that the papers print in sentences, beside ours: ``config/papers/sentences.csv``.
#
# A sentence often says a number that no table of ours holds, such as a loss relative to another number. So each has an
# expression of the claims' language that computes ours from the result tables. Only the order of such numbers is
# judged, by the claims: none is within a tolerance or not.


MEASURED = "measured"
ONLY_ORDER = Tolerances(classes={}, rules=())


@dataclass(frozen=True)
class InText:
    """A printed number.

    Attributes:
        printed: where it is printed, what it belongs to, and its value.
        measured: expression that gives ours.
    """

    printed: ResultRow
    measured: str

    @property
    def name(self) -> str:
        """Where it is printed and what was measured, for messages."""
        return f"of {self.printed.paper} {self.printed.item}, {self.printed.metric}"


def read_in_text(path: Path) -> tuple[InText, ...]:
    """Read ``config/papers/sentences.csv``.

    Raises:
        UserError: the file is missing or wrong, a number is printed twice, or an expression is none of the claims'
            language.
    """
    rows = ResultTable.read_printed(path).rows
    expressions = [cells[MEASURED] for _, cells in files.read_cells(path, (MEASURED,), RESTORE)]
    found = tuple(InText(row, text) for row, text in zip(rows, expressions, strict=True))
    names = Evidence(Indexed(ResultTable())).questions()
    for one in found:
        try:
            Check(one.name, one.measured, names)
        except UserError as error:
            raise UserError(f"{path}: {error}") from None
    return found


def beside_text(results: ResultTable, told: Iterable[InText]) -> tuple[Comparison, ...]:
    """Return the printed numbers with ours; of those that cannot be computed the reason.

    Args:
        results: all of one scale, with the attack's own choices.
        told: the numbers.
    """
    numbers = tuple(told)
    papers = {one.printed.paper for one in numbers}
    own = {paper: Indexed(results.select(paper=paper)) for paper in papers}
    ours = ResultTable(tuple(_ours(one, own[one.printed.paper]) for one in numbers))
    return compare(ours, ResultTable(tuple(one.printed for one in numbers)), ONLY_ORDER)


def _ours(told: InText, results: Indexed) -> ResultRow:
    evidence = Evidence(results, as_they_are=True)
    blank = replace(told.printed, std=None, note="")
    try:
        found = value_in(told.name, told.measured, evidence.questions())
    except NumberMissingError as error:
        return replace(blank, value=None, note=str(error.short))
    value = getattr(found, "value", found)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(f"config/papers/sentences.csv: {told.measured}, {told.name}, gives no number")
    return replace(blank, value=float(value), substitutes=ResultTable(tuple(evidence.touched)).substitutes())
