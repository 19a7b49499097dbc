"""One paper's results with what every claim asks of them again: rows by metric and by key, the strongest attackers."""

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from statistics import fmean, median
from typing import Any

from leaklab.metrics.intervals import is_share
from leaklab.report.judge.attackers import Setting, contested, setting_of, worst_case
from leaklab.report.judge.estimates import Estimate, Singles
from leaklab.report.numbers.results import DIFFERENCE, SELECTION, UPDATE, ResultRow, ResultTable, summarised

ByValue = Mapping[tuple[str, bool, Hashable], Sequence[ResultRow]]
"""Key, whether its value is a truth value, and the value (``results.py::same``) -> rows that have it."""
SCALARS = (str, int, float, bool, type(None))
"""Types of values by which rows are found; none of them equals a value of another type."""
OF_ONE_UPDATE = (UPDATE, "image", "example")
MEDIAN = "_median"
CLOSE = 1e-6
"""How far a number may lie from the summary of its single values, as a part of it: what a file rounds away."""


class Indexed:
    """A result table that is read once however many claims look at it."""

    def __init__(self, table: ResultTable):
        self.table = table
        self._by_value: dict[tuple[str, str], ByValue] = {}

    @cached_property
    def by_metric(self) -> Mapping[tuple[str, str], list[ResultRow]]:
        """Return the rows of every (item, metric)."""
        found: dict[tuple[str, str], list[ResultRow]] = defaultdict(list)
        for row in self.table.rows:
            found[row.item, row.metric].append(row)
        return found

    def candidates(self, item: str, metric: str, keys: Mapping[str, Any]) -> Sequence[ResultRow]:
        """Return rows of an item and a metric in their order: all that have the keys, and few of the others."""
        rows = self.by_metric.get((item, metric), [])
        plain = [(key, value) for key, value in keys.items() if type(value) in SCALARS]
        if not plain or not rows:
            return rows
        if (item, metric) not in self._by_value:
            self._by_value[item, metric] = _by_value(rows)
        known = self._by_value[item, metric]
        return min((known.get((key, isinstance(value, bool), value), ()) for key, value in plain), key=len)

    @cached_property
    def strongest(self) -> "Indexed":
        """Return the same results under the strongest attacker of each setting."""
        return Indexed(worst_case(self.table))

    @cached_property
    def contested(self) -> frozenset[Setting]:
        """Return the settings in which more than one attacker was run."""
        return contested(self.table)

    def with_singles(self, row: ResultRow, number: Estimate) -> Estimate:
        """Return a number with the single values that its row summarises, where the table has them.

        They have to be as many as the row has updates, and to give its value. Shares keep their own intervals.
        """
        values = self._singles.get((setting_of(row), row.runs), {})
        if not values or len(values) != row.clusters or number.is_exact or {DIFFERENCE, SELECTION} & row.row.keys():
            return number
        is_median = row.metric.endswith(MEDIAN)
        level = (median if is_median else fmean)(values.values())
        if not math.isclose(level, number.value, rel_tol=CLOSE, abs_tol=CLOSE):
            return number
        parts = number.parts
        if len(parts) == 1 and not is_median and not number.is_open and not is_share(summarised(row.metric)):
            parts = (replace(parts[0], values=values),)
        return replace(number, parts=parts, singles=Singles(values, is_median))

    @cached_property
    def _singles(self) -> Mapping[tuple[Setting, tuple[str, ...]], Mapping[Hashable, float]]:
        """Return the mean over the draws of every update, by its setting and runs; those of summaries aside."""
        found: dict[tuple[Setting, tuple[str, ...]], dict[Hashable, list[float]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for row in self.table.rows:
            name = next((key for key in OF_ONE_UPDATE if key in row.row), None)
            if name is not None and row.value is not None and set(row.aside) <= {UPDATE} and not row.is_point:
                found[setting_of(row), row.runs][f"{name} {row.row[name]}"].append(row.value)
        return {key: {update: fmean(own) for update, own in of.items()} for key, of in found.items()}


def _by_value(rows: Sequence[ResultRow]) -> ByValue:
    found: dict[tuple[str, bool, Hashable], list[ResultRow]] = defaultdict(list)
    for row in rows:
        for key, value in row.row.items():
            if type(value) in SCALARS:
                found[key, isinstance(value, bool), value].append(row)
    return dict(found)
