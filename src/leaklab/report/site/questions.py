"""What a finding may ask of the results of a scale: of each paper once, and of its strongest attackers as asked."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from leaklab.report.judge.attackers import worst_case
from leaklab.report.judge.claims import value_in
from leaklab.report.judge.evidence import Evidence
from leaklab.report.judge.indexed import Indexed
from leaklab.report.numbers.results import KNOWING, PAPER, ResultRow, ResultTable, summarised

FINDINGS = Path("config/papers/findings.yaml")
Rows = Mapping[tuple[str, str], list[ResultRow]]
"""(item, metric) -> rows."""


class StrongestAsAsked(Rows):
    """The rows of a paper under its strongest attackers, found for one metric of an item when it is asked for.

    Who is the strongest is decided for each setting, and a setting is of one item and of one metric with its
    summaries: the other rows of a paper, most of them, have no part in it.
    """

    def __init__(self, table: ResultTable):
        """Take the results of one paper."""
        self._of = defaultdict[tuple[str, str], list[ResultRow]](list)
        for row in table.rows:
            self._of[row.item, summarised(row.metric)].append(row)
        self._found: dict[tuple[str, str], Rows] = {}

    def __getitem__(self, asked: tuple[str, str]) -> list[ResultRow]:
        """Return the rows of an item and a metric; a KeyError where there are none."""
        of = asked[0], summarised(asked[1])
        if of not in self._found:
            self._found[of] = dict(Indexed(worst_case(ResultTable(tuple(self._of.get(of, ()))))).by_metric)
        return self._found[of][asked]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield every item and metric that has rows."""
        return iter(dict.fromkeys((row.item, row.metric) for rows in self._of.values() for row in rows))

    def __len__(self) -> int:
        """Return how many items and metrics have rows."""
        return len(list(iter(self)))


class OfPaper(Indexed):
    """The results of a paper, of which findings ask for a few metrics."""

    @cached_property
    def strongest(self) -> Indexed:
        """Return the same results under the strongest attacker of each setting, each found when it is asked for."""
        found = Indexed(self.table)
        vars(found)["by_metric"] = StrongestAsAsked(self.table)  # as if it had been asked: a cached property
        return found


@dataclass(frozen=True)
class Questions:
    """What a finding may ask: the questions of the claims, of the numbers as they are."""

    paper: str
    results: ResultTable

    @cached_property
    def names(self) -> Mapping[str, Any]:
        """Return every name of an expression."""
        evidence = Evidence(OfPaper(self.results.select(paper=self.paper)), as_they_are=True)
        return {**evidence.questions(), "PAPER": PAPER, "KNOWING": KNOWING}

    def value(self, text: str) -> Any:
        """Return what an expression gives.

        Raises:
            UserError: it is none of the claims' language.
            NumberMissingError: it asks for a number that is not there.
        """
        return value_in(f"of {FINDINGS}", text, self.names)


@dataclass(frozen=True)
class Asked:
    """The results of a scale, and what they are asked: each paper's rows are looked through once."""

    results: ResultTable
    _known: dict[str, Questions] = field(default_factory=dict, repr=False, compare=False)

    def of(self, paper: str) -> Questions:
        """Return the questions to a paper's results."""
        if paper not in self._known:
            self._known[paper] = Questions(paper, self._by_paper.get(paper, ResultTable()))
        return self._known[paper]

    def about(self, paper: str, items: Iterable[str]) -> ResultTable:
        """Return the rows of some items of a paper."""
        tables = (self.by_item.get((paper, item), ResultTable()) for item in dict.fromkeys(items))
        return ResultTable(tuple(row for table in tables for row in table.rows))

    @cached_property
    def _by_paper(self) -> Mapping[str, ResultTable]:
        found = defaultdict[str, list[ResultRow]](list)
        for row in self.results.rows:
            found[row.paper].append(row)
        return {paper: ResultTable(tuple(rows)) for paper, rows in found.items()}

    @cached_property
    def by_item(self) -> Mapping[tuple[str, str], ResultTable]:
        """Return (paper, item) -> its rows."""
        found = defaultdict[tuple[str, str], list[ResultRow]](list)
        for row in self.results.rows:
            found[row.paper, row.item].append(row)
        return {key: ResultTable(tuple(rows)) for key, rows in found.items()}
