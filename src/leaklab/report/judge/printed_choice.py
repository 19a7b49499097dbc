"""Which guess of an attack a paper printed: where it is another than the attack's own, the comparison takes that.

A paper that prints the best of several starts by the pixel error chooses with the truth. Its numbers are compared with
the rows of that choice (``selection``: ``oracle``); claims, pages and tables keep the attack's own.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from leaklab.records.config import parse, read_yaml
from leaklab.records.record import Record
from leaklab.report.numbers.results import PAPER, SELECTION, ResultRow, ResultTable

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
