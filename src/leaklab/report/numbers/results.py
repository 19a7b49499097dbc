"""The long result table: one line per number, the same shape for regenerated and for printed numbers."""

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from leaklab.records import files
from leaklab.records.errors import UserError
from leaklab.report.numbers.compact import INDEX as INDEX
from leaklab.report.numbers.compact import UPDATE as UPDATE
from leaklab.report.numbers.compact import packed, unpacked

AS_DESCRIBED = "as-described"
AGAIN = "delete what is there and run snakemake for it"
RESTORE = "restore it from the repository"
DRAW_PREFIX = "partition-seed="
PAPER, BLIND, KNOWING = "paper", "blind", "knowing"
UNMARKED = ""
ATTACKERS = (PAPER, BLIND, KNOWING, UNMARKED)
BY = "by"
SELECTION, TRIED, DIFFERENCE = "selection", "tried", "difference"
ASIDE = (SELECTION, TRIED, DIFFERENCE, UPDATE)
"""Keys of rows that stand beside or behind the attackers' own results: who does not ask by the key sees none."""
OVER_GUESS, BY_DEFENSE = "attack - best guess", "defended - undefended"
"""Differences, update by update, that each attacker has: to the best reference, and to the same without defense."""
SUMMARIES = ("_median", "_mean")
PROTECTION_LEFT = "protection_left"
DIGITS = 10
"""Significant digits of a number in the file: more than any interval is narrow."""
DIRECTIONS = ("higher", "lower", "")

KNOWN = 1 << 16
_ASIDE = frozenset(ASIDE)
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(", ", ": "), ensure_ascii=False)
"""Texts of keys and lists that are kept: each stands in a line for each metric."""

RowKeys = dict[str, Any]


@dataclass(frozen=True)
class ResultRow:
    """One number of one item.

    Attributes:
        paper: key of the paper, e.g. ``lrp``.
        item: key of the item, e.g. ``table1``.
        row: what the number belongs to, e.g. ``{"model": "cnn", "eta1": 0.005}``; keys as in ``targets.csv``.
            Numbers behind a curve carry the key ``index``, and those of the knowing attacker ``by``: which attack it
            was. Rows beside the attackers carry ``selection`` (``oracle``, ``mean-image``, ``unrelated-image``,
            ``same-class-image``; of a control ``planted``), ``tried`` (one of all attacks that were tried) or
            ``difference`` (of two attackers, in pairs). Behind the mean of an item that shows means only stand its
            single values, with ``update``: a number that the same private images have in all rows of the item.
        metric: what was measured.
        value: the number, None where there is none (a capped run, a value lost in print).
        std: sample standard deviation over the clusters.
        ci_low: lower end of the 95 % interval of the value, over the clusters; None below six of them.
        ci_high: upper end of it.
        n: number of values.
        clusters: how many of them are independent: updates of attacks (all images and draws of an update are one),
            replicates of trainings. None where nothing was sampled.
        unit: ``%``, ``dB``, ``s`` or empty.
        better: ``higher`` or ``lower``, the direction in which the paper's subject improves; empty where neither.
        attacker: ``paper`` (exactly what the paper ran), ``blind`` (the same without the paper's own transforms for the
            defense), ``knowing`` (the strongest of all that were run, by this very metric), or empty where a number
            is no attacker's.
        variant: ``as-described``, or ``partition-seed=3`` for one draw of a sensitivity study.
        substitutes: stand-ins that the number rests on; such a number is never compared with a printed one.
        runs: ids of the runs that it was computed from.
        note: why there is no value, one word first: ``not run: data not here: ImageNet``, ``diverged: all 3 runs``.
    """

    paper: str
    item: str
    row: RowKeys
    metric: str
    value: float | None
    std: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    n: int | None = None
    clusters: int | None = None
    unit: str = ""
    better: str = ""
    attacker: str = UNMARKED
    variant: str = AS_DESCRIBED
    substitutes: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    note: str = ""

    @property
    def is_point(self) -> bool:
        """Whether the number is one of those behind a curve."""
        return INDEX in self.row

    @property
    def shown(self) -> float | None:
        """The value for readers: protection left is told between nothing and all."""
        if self.value is None or self.metric != PROTECTION_LEFT:
            return self.value
        return min(max(self.value, 0.0), 100.0)

    @property
    def aside(self) -> tuple[str, ...]:
        """The keys by which a number stands beside the attackers' own: of a reference, a single update, ..."""
        return () if _ASIDE.isdisjoint(self.row) else tuple(key for key in ASIDE if key in self.row)

    @property
    def of_attacker(self) -> bool:
        """Whether an attacker has this number: a result of his own, also of one update, or a difference of these."""
        own = self.aside in ((), (UPDATE,)) or self.row.get(DIFFERENCE) in (OVER_GUESS, BY_DEFENSE)
        return self.attacker in (PAPER, BLIND, KNOWING) and own


COLUMNS = tuple(field.name for field in fields(ResultRow))
# files of the papers' numbers do not have it
OPTIONAL_COLUMNS = ("note",)


@dataclass(frozen=True)
class ResultTable:
    """Rows of one or more items, in file order."""

    rows: tuple[ResultRow, ...] = ()

    @classmethod
    def read(cls, path: Path) -> "ResultTable":
        """Read ``results/<scale>/<paper>/<item>.csv``.

        Raises:
            UserError: the file is missing, lacks a column, or a line does not parse; the line is named.
        """
        needed = tuple(name for name in COLUMNS if name not in OPTIONAL_COLUMNS)
        lines = unpacked(files.read_cells(path, needed, AGAIN))
        try:
            return cls(tuple(_parse(path, line, cells, AGAIN) for line, cells in lines))
        except ValueError as error:
            raise UserError(f"{path}, {error}: {AGAIN}") from None

    @classmethod
    def read_printed(cls, path: Path) -> "ResultTable":
        """Read ``config/papers/targets.csv``: the printed numbers, as rows without runs."""
        needed = ("paper", "item", "row", "metric", "value", "std", "unit", "better")
        blank = dict.fromkeys(COLUMNS, "") | {"variant": AS_DESCRIBED}
        lines = files.read_cells(path, needed, RESTORE)
        return cls(tuple(_parse(path, line, blank | cells, RESTORE) for line, cells in lines))

    def write(self, path: Path) -> None:
        """Write the table; reading it again gives the same rows, numbers to ten digits (see ``compact``)."""
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(packed({name: _cell(getattr(row, name)) for name in COLUMNS} for row in self.rows))
        files.write_text(path, buffer.getvalue())

    def __add__(self, other: "ResultTable") -> "ResultTable":
        return ResultTable(self.rows + other.rows)

    def select(
        self,
        paper: str | None = None,
        item: str | None = None,
        metric: str | None = None,
        attackers: Iterable[str] | None = None,
        variant: str | None = None,
    ) -> "ResultTable":
        """Return the rows that agree with every given column; None leaves a column free."""
        wanted = None if attackers is None else set(attackers)
        return ResultTable(
            tuple(
                row
                for row in self.rows
                if paper in (None, row.paper)
                and item in (None, row.item)
                and metric in (None, row.metric)
                and (wanted is None or row.attacker in wanted)
                and variant in (None, row.variant)
            )
        )

    def draws(self) -> tuple[str, ...]:
        """Return the variants that are partition draws, by rising seed."""
        found = {row.variant for row in self.rows if row.variant.startswith(DRAW_PREFIX)}
        return tuple(sorted(found, key=lambda variant: (len(variant), variant)))

    def substitutes(self) -> tuple[str, ...]:
        """Return every stand-in that some row rests on, once, in order of appearance."""
        return tuple(dict.fromkeys(name for row in self.rows for name in row.substitutes))


def canonical(row: Mapping[str, Any]) -> str:
    """Return a row's keys as canonical JSON: sorted, ``", "`` and ``": "`` between the parts."""
    return _ENCODER.encode(dict(row))


def same(first: Any, second: Any) -> bool:
    """Return whether two row values agree; ``1`` is ``1.0``, but ``true`` is not ``1``."""
    return isinstance(first, bool) == isinstance(second, bool) and bool(first == second)


def matches(row: Mapping[str, Any], keys: Mapping[str, Any]) -> bool:
    """Return whether ``row`` has every one of ``keys``."""
    return all(name in row and same(row[name], value) for name, value in keys.items())


def identity(row: Mapping[str, Any]) -> str:
    """Return a text by which rows can be joined: equal if and only if the keys agree in the sense of ``same``."""
    numbers = {
        key: float(value) if isinstance(value, int) and not isinstance(value, bool) else value
        for key, value in row.items()
    }
    return canonical(numbers)


def _parse(path: Path, line: int, cells: Mapping[str, str], advice: str) -> ResultRow:
    try:
        return ResultRow(
            paper=cells["paper"],
            item=cells["item"],
            row=_keys(cells["row"]),
            metric=cells["metric"],
            value=_number(cells["value"]),
            std=_number(cells["std"]),
            ci_low=_number(cells["ci_low"]),
            ci_high=_number(cells["ci_high"]),
            n=_whole("n", cells["n"]),
            clusters=_whole("clusters", cells["clusters"]),
            unit=cells["unit"],
            better=_one_of(DIRECTIONS, "better", cells["better"]),
            attacker=_one_of(ATTACKERS, "attacker", cells["attacker"]),
            variant=cells["variant"] or AS_DESCRIBED,
            substitutes=_parts(cells["substitutes"]),
            runs=_parts(cells["runs"]),
            note=cells.get("note", ""),
        )
    except ValueError as error:
        raise UserError(f"{path}, line {line}: {error}: {advice}") from None


@lru_cache(KNOWN)
def _keys(text: str) -> RowKeys:
    try:
        row = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise ValueError(f"row is not a JSON object: {text!r}")
    return row


def _number(text: str) -> float | None:
    if not text:
        return None
    value = float(text)
    return None if math.isnan(value) else value


def _whole(column: str, text: str) -> int | None:
    try:
        return int(float(text)) if text else None
    except (ValueError, OverflowError):
        raise ValueError(f"{column} is {text!r}, not a whole number") from None


def _one_of(allowed: tuple[str, ...], column: str, text: str) -> str:
    if text not in allowed:
        raise ValueError(f"{column} is {text!r}, not one of {', '.join(repr(name) for name in allowed)}")
    return text


@lru_cache(KNOWN)
def _parts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(";") if part.strip())


def summarised(metric: str) -> str:
    """Return the metric that a summary is of: ``mse`` for ``mse_median``."""
    for suffix in SUMMARIES:
        metric = metric.removesuffix(suffix)
    return metric


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        return canonical(value)
    if isinstance(value, tuple):
        return "; ".join(value)
    if isinstance(value, float):
        return f"{value:.{DIGITS}g}"
    return str(value)
