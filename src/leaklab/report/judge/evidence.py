"""What a claim may ask of the results, and a record of every number it asked for.

The questions are those of the claims' language: ``T V sd D S`` read a paper's results, each number with its interval;
``F`` reads a fact.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from leaklab.report.judge.estimates import Estimate
from leaklab.report.judge.indexed import Indexed
from leaklab.report.judge.intervals import has_number, measured, plain_number, spread
from leaklab.report.numbers.results import (
    AS_DESCRIBED,
    ATTACKERS,
    KNOWING,
    PAPER,
    SUMMARIES,
    UNMARKED,
    ResultRow,
    ResultTable,
    RowKeys,
    canonical,
    identity,
    matches,
)
from leaklab.report.numbers.words import MissingNumber, NumberMissingError


@dataclass
class Evidence:
    """The results of one paper, in one variant, as a claim sees them.

    Only the attacker of the paper is seen, unless a claim passes ``attacker="blind"`` or ``attacker="knowing"`` (see
    ``worst_case``); rows beside or behind the attackers' (``selection``, ``tried``, ``difference``, ``update``) are
    seen only by a claim that names their key. Where a metric has both curves and numbers of their own, ``S`` sees the
    curves and all others the numbers.

    Attributes:
        results: those of the claim's paper.
        printed: the paper's printed numbers. A question about a whole table (``V D``) is answered only when every row
            that the paper printed is there; an empty table lifts this demand.
        variant: ``as-described``, or one draw of a sensitivity study.
        attackers: whose rows are seen where a claim does not say.
        asked: the rows that answers were taken from, in the order of asking.
        doubts: why numbers that were asked for since ``doubts_so_far`` decide nothing, by item.
        stand_ins: metric -> metric that is asked instead where an item has none of its numbers.
        as_they_are: numbers are taken without their intervals.
    """

    results: Indexed
    printed: ResultTable = field(default_factory=ResultTable)
    variant: str = AS_DESCRIBED
    attackers: tuple[str, ...] = (PAPER, UNMARKED)
    asked: dict[tuple[str, ...], ResultRow] = field(default_factory=dict)
    doubts: dict[str, str] = field(default_factory=dict)
    stand_ins: Mapping[str, str] = field(default_factory=dict)
    as_they_are: bool = False

    def T(self, item: str, metric: str, /, **keys: Any) -> Estimate:  # noqa: N802
        """Return the one value of ``metric`` whose row has all ``keys``."""
        return self._value(self._only(item, metric, keys))

    def F(self, item: str, metric: str, /, **keys: Any) -> Estimate:  # noqa: N802
        """Return the one value as a fact: of an example that the paper names there is nothing to sample."""
        before = dict(self.doubts)
        value = self._value(self._only(item, metric, keys)).value
        self.doubts = before
        return Estimate.exact(value)

    def sd(self, item: str, metric: str, /, **keys: Any) -> Estimate:
        """Return the standard deviation over the replicates of that one cell."""
        row = self._only(item, metric, keys)
        self._value(row)
        if row.std is None:
            raise NumberMissingError(f"{item} has no spread of {metric} for {canonical(row.row)}")
        sampled = row.clusters or row.n
        if self.as_they_are or sampled is None:
            return Estimate.exact(row.std)
        return spread(row.std, sampled) if sampled > 1 else Estimate.open(row.std)

    def V(self, item: str, metric: str, /, **keys: Any) -> list[tuple[RowKeys, Estimate]]:  # noqa: N802
        """Return (row, value) of every row that has all ``keys``."""
        return [(dict(row.row), self._value(row)) for row in self._all(item, metric, keys)]

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
            gap = [side for side, found in sides.items() if found is None or not has_number(found)]
            if not gap:
                pairs.append((_without(row.row, key), self._value(right[rest]) - self._value(left[rest])))
            elif rest in needed:
                lost = sides[gap[0]]
                error = NumberMissingError(
                    f"{item} has no {metric} with {key}={gap[0]} for {rest}", lost.note if lost else ""
                )
                pairs.append((_without(row.row, key), MissingNumber(error)))
        missing = [value for _, value in pairs if isinstance(value, MissingNumber)]
        if len(missing) == len(pairs):
            raise missing[0].error if missing else NumberMissingError(self._absent(item, metric, keys | {key: [a, b]}))
        return pairs

    def S(self, item: str, series: str, /, **keys: Any) -> list[Estimate]:  # noqa: N802
        """Return the numbers behind a curve or a flattened grid, ordered by the row key ``index``."""
        rows = self._find(item, series, keys, points=True)
        if not rows:
            raise NumberMissingError(self._absent(item, series, keys))
        if all("index" in row.row for row in rows):
            rows = sorted(rows, key=lambda row: row.row["index"])
        places = [row.row.get("index", place) for place, row in enumerate(rows)]
        if len(set(places)) < len(places):
            raise NumberMissingError(f"{item} has more than one series {series} for {canonical(keys)}: name more keys")
        return [self._value(row) for row in rows]

    def doubts_so_far(self) -> list[str]:
        """Return why numbers that were asked for since the last call decide nothing, and forget it."""
        found = [f"{item}: {doubt}" for item, doubt in self.doubts.items()]
        self.doubts.clear()
        return found

    def questions(self) -> dict[str, Callable[..., Any]]:
        """Return every question of the claims' language by its name."""
        return {"T": self.T, "F": self.F, "V": self.V, "sd": self.sd, "D": self.D, "S": self.S}

    def _value(self, row: ResultRow) -> Estimate:
        number = plain_number(row)
        if number is None:
            note = row.note or "no value"
            raise NumberMissingError(f"{row.item} has no number as {row.metric} of {canonical(row.row)}", note)
        self._remember(row)
        found = None if self.as_they_are else measured(row)
        if found is None:
            return Estimate.exact(number)
        if found.doubt:
            self.doubts.setdefault(row.item, found.doubt)
        return self.results.with_singles(row, found.number)

    def _remember(self, row: ResultRow) -> None:
        """Keep a row that was asked for; one that stands in for several metrics says so for each of them."""
        key = (row.item, row.metric, row.attacker, row.variant, identity(row.row))
        known = self.asked.setdefault(key, row)
        self.asked[key] = replace(known, substitutes=tuple(dict.fromkeys((*known.substitutes, *row.substitutes))))

    @property
    def touched(self) -> list[ResultRow]:
        """The rows that answers were taken from, in the order of asking."""
        return list(self.asked.values())

    def _find(self, item: str, metric: str, keys: Mapping[str, Any], points: bool = False) -> list[ResultRow]:
        rows = self._rows(item, metric, keys, points)
        other = _stand_in(metric, self.stand_ins)
        if not other or any(row.value is not None for row in rows):
            return rows
        instead = f"{other} in place of {metric}"
        found = self._rows(item, other, keys, points)
        return [replace(row, substitutes=(*row.substitutes, instead)) for row in found] or rows

    def _rows(self, item: str, metric: str, keys: Mapping[str, Any], points: bool) -> list[ResultRow]:
        asked = keys.get("attacker")
        attackers = ATTACKERS[:-1] if asked == KNOWING else self.attackers if asked is None else (asked,)
        of_row = {name: value for name, value in keys.items() if name != "attacker"}
        results = self.results.strongest if asked == KNOWING else self.results
        rows = [
            row
            for row in results.candidates(item, metric, of_row)
            if row.attacker in attackers
            and row.variant == self.variant
            and matches(row.row, of_row)
            and set(row.aside) <= keys.keys()
        ]
        return [row for row in rows if row.is_point == points] or rows

    def _only(self, item: str, metric: str, keys: Mapping[str, Any]) -> ResultRow:
        rows = self._find(item, metric, keys)
        if not rows:
            raise NumberMissingError(self._absent(item, metric, keys))
        if len(rows) > 1:
            raise NumberMissingError(f"{item} has {len(rows)} rows of {metric} for {canonical(keys)}: name more keys")
        return rows[0]

    def _all(self, item: str, metric: str, keys: Mapping[str, Any]) -> list[ResultRow]:
        rows = self._find(item, metric, keys)
        present = {identity(row.row) for row in rows}
        for row in self._printed(item, metric, keys):
            if identity(row.row) not in present:
                raise NumberMissingError(self._absent(item, metric, row.row))
        if not rows:
            raise NumberMissingError(self._absent(item, metric, keys))
        return rows

    def _printed(self, item: str, metric: str, keys: Mapping[str, Any]) -> list[ResultRow]:
        rows = self.printed.select(item=item, metric=metric).rows
        return [row for row in rows if row.value is not None and matches(row.row, keys)]

    @staticmethod
    def _by_rest(rows: Sequence[ResultRow], key: str) -> dict[str, ResultRow]:
        return {identity(_without(row.row, key)): row for row in rows}

    def _pairs_needed(
        self, item: str, metric: str, key: str, a: Any, b: Any, keys: Mapping[str, Any]
    ) -> dict[str, ResultRow]:
        left, right = (self._by_rest(self._printed(item, metric, {**keys, key: value}), key) for value in (a, b))
        return {rest: row for rest, row in left.items() if rest in right}

    def _absent(self, item: str, metric: str, keys: Mapping[str, Any]) -> str:
        if not self.results.table.select(item=item, variant=self.variant).rows:
            return f"{item} has no results at this scale"
        return f"{item} has no {metric} for {canonical(keys)}"


def _without(row: Mapping[str, Any], key: str) -> RowKeys:
    return {name: value for name, value in row.items() if name != key}


def _stand_in(metric: str, stand_ins: Mapping[str, str]) -> str:
    """Return the metric that is asked instead, of a summary its summary; empty for none."""
    suffix = next((suffix for suffix in SUMMARIES if metric.endswith(suffix)), "")
    other = stand_ins.get(metric.removesuffix(suffix))
    return f"{other}{suffix}" if other else ""
