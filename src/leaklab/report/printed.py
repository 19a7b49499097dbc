"""The printed numbers beside results, with the tolerances that the items themselves ask for."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from leaklab.records.items import Item
from leaklab.report.comparison import Comparison, compare
from leaklab.report.results import ResultTable
from leaklab.report.tolerances import Tolerances

PAPERS = Path("config/papers")
TARGETS = PAPERS / "targets.csv"
TOLERANCES = PAPERS / "tolerances.yaml"


def beside_print(results: ResultTable, items: Iterable[Item]) -> tuple[Comparison, ...]:
    """Compare results with every printed number of the items that they belong to."""
    chosen = {(item.paper, item.item): item for item in items}
    printed = ResultTable.read_printed(TARGETS)
    own = ResultTable(tuple(row for row in printed.rows if (row.paper, row.item) in chosen))
    choices: dict[tuple[str, str], dict[str, Any]] = {
        key: item.comparison.model_dump(by_alias=True, exclude_defaults=True)
        for key, item in chosen.items()
        if item.comparison
    }
    return compare(results, own, Tolerances.load(TOLERANCES), choices)
