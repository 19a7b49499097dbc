"""The printed numbers beside results, with the tolerances that the items themselves ask for."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leaklab.records.items import Item
from leaklab.report.judge.comparison import Comparison, compare
from leaklab.report.judge.tolerances import Tolerances
from leaklab.report.numbers.results import ResultTable


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
