"""One paper's results with what every claim asks of them again: rows by metric, the strongest attackers."""

from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property

from leaklab.report.judge.worst_case import Setting, contested, worst_case
from leaklab.report.numbers.results import ResultRow, ResultTable


class Indexed:
    """A result table that is read once however many claims look at it."""

    def __init__(self, table: ResultTable):
        self.table = table

    @cached_property
    def by_metric(self) -> Mapping[tuple[str, str], list[ResultRow]]:
        """Return the rows of every (item, metric)."""
        found: dict[tuple[str, str], list[ResultRow]] = defaultdict(list)
        for row in self.table.rows:
            found[row.item, row.metric].append(row)
        return found

    @cached_property
    def strongest(self) -> "Indexed":
        """Return the same results under the strongest attacker of each setting."""
        return Indexed(worst_case(self.table))

    @cached_property
    def contested(self) -> frozenset[Setting]:
        """Return the settings in which more than one attacker was run."""
        return contested(self.table)
