"""Numbers that the papers print in sentences, beside ours: ``config/papers/sentences.csv``.

A sentence often says a number that no table of ours holds, such as a loss relative to another number. So each has an
expression of the claims' language that computes ours from the result tables. Only the order of such numbers is judged,
by the claims: none is within a tolerance or not.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from leaklab.records import files
from leaklab.records.errors import UserError
from leaklab.report.judge.claims import Check, value_in
from leaklab.report.judge.comparison import Comparison, compare
from leaklab.report.judge.evidence import Evidence, Indexed
from leaklab.report.judge.tolerances import Tolerances
from leaklab.report.numbers.results import RESTORE, ResultRow, ResultTable
from leaklab.report.numbers.words import NumberMissingError

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
