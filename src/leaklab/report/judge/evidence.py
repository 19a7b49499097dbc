"""What a claim may ask of the results, and a record of every number it asked for.

The functions are those of the claims' language: ``T V sd best worst D S`` read a paper's results, the others are
plain statistics. Each is stated where it is defined.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median
from typing import Any

from leaklab.metrics.statistics import slope, spearman
from leaklab.report.numbers.missing import MissingNumber, UntestableError
from leaklab.report.numbers.results import (
    AS_DESCRIBED,
    AS_PRINTED,
    UNMARKED,
    ResultRow,
    ResultTable,
    RowKeys,
    canonical,
    identity,
    matches,
)

E_GRID = (1, 2, 5, 10, 20, 50, 100, 200)


@dataclass
class Evidence:
    """The results of one paper, in one variant, as a claim sees them.

    Only the attacker of the paper (``as-printed``) is seen, unless a claim passes ``attacker="adaptive"``; rows with
    a ``selection`` (oracle, reference images) are seen only by a claim that names one. Where a metric has both curves
    and numbers of their own, ``S`` sees the curves and all others the numbers.

    Attributes:
        results: rows of the claim's paper.
        printed: the paper's printed numbers. A question about a whole table (``V best worst D``) is answered only
            when every row that the paper printed is there; an empty table lifts this demand.
        variant: ``as-described``, or one draw of a sensitivity study.
        attackers: whose rows are seen where a claim does not say.
        asked: the rows that answers were taken from, in the order of asking.
        stand_ins: metric -> metric that is asked instead where an item has none of its numbers.
    """

    results: ResultTable
    printed: ResultTable = field(default_factory=ResultTable)
    variant: str = AS_DESCRIBED
    attackers: tuple[str, ...] = (AS_PRINTED, UNMARKED)
    asked: dict[tuple[str, ...], ResultRow] = field(default_factory=dict)
    stand_ins: Mapping[str, str] = field(default_factory=dict)

    def T(self, item: str, metric: str, /, **keys: Any) -> float:  # noqa: N802
        """Return the one value of ``metric`` whose row has all ``keys``."""
        return self._value(self._only(item, metric, keys))

    def sd(self, item: str, metric: str, /, **keys: Any) -> float:
        """Return the standard deviation over the replicates of that one cell."""
        row = self._only(item, metric, keys)
        self._value(row)
        if row.std is None:
            raise UntestableError(f"{item} has no spread of {metric} for {canonical(row.row)}")
        return row.std

    def V(self, item: str, metric: str, /, **keys: Any) -> list[tuple[RowKeys, float]]:  # noqa: N802
        """Return (row, value) of every row that has all ``keys``."""
        return [(dict(row.row), self._value(row)) for row in self._all(item, metric, keys)]

    def best(self, item: str, metric: str, /, **keys: Any) -> RowKeys:
        """Return the row with the best value by its ``better``; the first of equal ones."""
        return self._extreme(item, metric, keys, sign=1)

    def worst(self, item: str, metric: str, /, **keys: Any) -> RowKeys:
        """Return the row with the worst value by its ``better``; the first of equal ones."""
        return self._extreme(item, metric, keys, sign=-1)

    def D(self, item: str, metric: str, key: str, a: Any, b: Any, /, **keys: Any) -> list[tuple[RowKeys, Any]]:  # noqa: N802
        """Return (row without ``key``, value at ``key=b`` minus value at ``key=a``) of every pair.

        Where print has a pair (without printed numbers: where one side is there) and the results do not, the
        difference is a ``MissingNumber``, and a claim learns the reason when it uses it.
        """
        left, right = (self._by_rest(self._find(item, metric, {**keys, key: value}), key) for value in (a, b))
        needed = self._pairs_needed(item, metric, key, a, b, keys) or {**left, **right}
        pairs: list[tuple[RowKeys, Any]] = []
        for rest, row in {**left, **right, **needed}.items():
            sides = {a: left.get(rest), b: right.get(rest)}
            gap = [side for side, found in sides.items() if found is None or found.value is None]
            if not gap:
                pairs.append((_without(row.row, key), self._value(right[rest]) - self._value(left[rest])))
            elif rest in needed:
                lost = sides[gap[0]]
                error = UntestableError(
                    f"{item} has no {metric} with {key}={gap[0]} for {rest}", lost.note if lost else ""
                )
                pairs.append((_without(row.row, key), MissingNumber(error)))
        missing = [value for _, value in pairs if isinstance(value, MissingNumber)]
        if len(missing) == len(pairs):
            raise missing[0].error if missing else UntestableError(self._absent(item, metric, keys | {key: [a, b]}))
        return pairs

    def S(self, item: str, series: str, /, **keys: Any) -> list[float]:  # noqa: N802
        """Return the numbers behind a curve or a flattened grid, ordered by the row key ``index``."""
        rows = self._find(item, series, keys, points=True)
        if not rows:
            raise UntestableError(self._absent(item, series, keys))
        if all("index" in row.row for row in rows):
            rows = sorted(rows, key=lambda row: row.row["index"])
        places = [row.row.get("index", place) for place, row in enumerate(rows)]
        if len(set(places)) < len(places):
            raise UntestableError(f"{item} has more than one series {series} for {canonical(keys)}: name more keys")
        return [self._value(row) for row in rows]

    def language(self) -> dict[str, Any]:
        """Return every name of the claims' language with its meaning."""
        asking: dict[str, Callable[..., Any]] = {
            "T": self.T, "V": self.V, "sd": self.sd, "best": self.best, "worst": self.worst, "D": self.D, "S": self.S,
        }  # fmt: skip
        return asking | STATISTICS

    def _value(self, row: ResultRow) -> float:
        if row.value is None:
            note = row.note or "capped or diverged"
            raise UntestableError(f"{row.item} has no number as {row.metric} of {canonical(row.row)}", note)
        self.asked.setdefault((row.item, row.metric, row.attacker, row.variant, identity(row.row)), row)
        return row.value

    @property
    def touched(self) -> list[ResultRow]:
        """The rows that answers were taken from, in the order of asking."""
        return list(self.asked.values())

    def _find(self, item: str, metric: str, keys: Mapping[str, Any], points: bool = False) -> list[ResultRow]:
        rows = self._rows(item, metric, keys, points)
        other = self.stand_ins.get(metric)
        if other is None or any(row.value is not None for row in rows):
            return rows
        instead = f"{other} in place of {metric}"
        found = self._rows(item, other, keys, points)
        return [replace(row, substitutes=(*row.substitutes, instead)) for row in found] or rows

    def _rows(self, item: str, metric: str, keys: Mapping[str, Any], points: bool) -> list[ResultRow]:
        attackers = [keys["attacker"]] if "attacker" in keys else self.attackers
        of_row = {name: value for name, value in keys.items() if name != "attacker"}
        table = self.results.select(item=item, metric=metric, attackers=attackers, variant=self.variant)
        rows = [
            row
            for row in table.rows
            if matches(row.row, of_row) and ("selection" in keys or "selection" not in row.row)
        ]
        return [row for row in rows if row.is_point == points] or rows

    def _only(self, item: str, metric: str, keys: Mapping[str, Any]) -> ResultRow:
        rows = self._find(item, metric, keys)
        if not rows:
            raise UntestableError(self._absent(item, metric, keys))
        if len(rows) > 1:
            raise UntestableError(f"{item} has {len(rows)} rows of {metric} for {canonical(keys)}: name more keys")
        return rows[0]

    def _all(self, item: str, metric: str, keys: Mapping[str, Any]) -> list[ResultRow]:
        rows = self._find(item, metric, keys)
        present = {identity(row.row) for row in rows}
        for row in self._printed(item, metric, keys):
            if identity(row.row) not in present:
                raise UntestableError(self._absent(item, metric, row.row))
        if not rows:
            raise UntestableError(self._absent(item, metric, keys))
        return rows

    def _printed(self, item: str, metric: str, keys: Mapping[str, Any]) -> list[ResultRow]:
        rows = self.printed.select(item=item, metric=metric).rows
        return [row for row in rows if row.value is not None and matches(row.row, keys)]

    def _extreme(self, item: str, metric: str, keys: Mapping[str, Any], sign: int) -> RowKeys:
        rows = self._all(item, metric, keys)
        directions = {row.better for row in rows}
        if len(directions) != 1 or "" in directions:
            raise UntestableError(f"{item} does not say whether a higher or a lower {metric} is better")
        sign = sign if directions == {"higher"} else -sign
        return dict(max(rows, key=lambda row: sign * self._value(row)).row)

    @staticmethod
    def _by_rest(rows: Sequence[ResultRow], key: str) -> dict[str, ResultRow]:
        return {identity(_without(row.row, key)): row for row in rows}

    def _pairs_needed(
        self, item: str, metric: str, key: str, a: Any, b: Any, keys: Mapping[str, Any]
    ) -> dict[str, ResultRow]:
        left, right = (self._by_rest(self._printed(item, metric, {**keys, key: value}), key) for value in (a, b))
        return {rest: row for rest, row in left.items() if rest in right}

    def _absent(self, item: str, metric: str, keys: Mapping[str, Any]) -> str:
        if not self.results.select(item=item, variant=self.variant).rows:
            return f"{item} has no results at this scale"
        return f"{item} has no {metric} for {canonical(keys)}"


def log(values: Sequence[float]) -> list[float]:
    """Return the natural logarithm of each value.

    Raises:
        ValueError: a value is not positive.
    """
    return [math.log(value) for value in values]


def rounds_to(x: Sequence[float], fraction: float) -> int:
    """Return the first index at which ``x`` has made ``fraction`` of its total drop (first minus last value)."""
    goal = fraction * (x[0] - x[-1])
    return next(index for index, value in enumerate(x) if x[0] - value >= goal)


STATISTICS: dict[str, Any] = {
    "mean": fmean, "median": median, "spearman": spearman, "slope": slope, "log": log, "rounds_to": rounds_to,
    "E_GRID": E_GRID,
}  # fmt: skip


def _without(row: Mapping[str, Any], key: str) -> RowKeys:
    return {name: value for name, value in row.items() if name != key}
