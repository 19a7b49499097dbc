"""The printed numbers beside results, with the tolerances that the items themselves ask for.

A paper that prints the best of several starts by the pixel error chooses with the truth. Its numbers are compared with
the rows of that choice (``selection``: ``oracle``); claims, pages and tables keep the attack's own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from leaklab.items.items import Item
from leaklab.records.config import parse, read_yaml
from leaklab.records.record import Record
from leaklab.report.judge.comparison import Comparison, compare
from leaklab.report.judge.tolerances import Tolerances
from leaklab.report.numbers.results import PAPER, SELECTION, ResultRow, ResultTable


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
