"""Regenerated numbers beside the printed ones."""

import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any, Literal, get_args

from leaklab.records import files
from leaklab.records.errors import UserError
from leaklab.report.judge.tolerances import ClassName, Tolerance, Tolerances
from leaklab.report.numbers.results import (
    AS_DESCRIBED,
    PAPER,
    UNMARKED,
    ResultRow,
    ResultTable,
    RowKeys,
    canonical,
    identity,
)

Within = Literal["yes", "no", "not compared"]
Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Comparison:
    """One printed number and what was regenerated for it.

    Attributes:
        paper: key of the paper.
        item: key of the item.
        row: the cell's keys.
        metric: what was measured.
        printed: the paper's number.
        printed_std: its printed standard deviation.
        value: the regenerated number, None where there is none.
        std: its standard deviation over the replicates.
        difference: value - printed.
        tolerance: largest allowed absolute difference; None for classes without one.
        class_name: class of comparison (column ``class``).
        within: whether the number agrees in the sense of its class.
        reason: why it was not compared; empty otherwise.
        draws_min: smallest value over the partition draws.
        draws_max: largest value over them.
        within_draws: whether the printed number lies in that range; None without draws.
        centered_difference: the difference after each group's mean over its cells was removed on both sides.
    """

    paper: str
    item: str
    row: RowKeys
    metric: str
    printed: float
    printed_std: float | None = None
    value: float | None = None
    std: float | None = None
    difference: float | None = None
    tolerance: float | None = None
    class_name: ClassName = "order only"
    within: Within = "not compared"
    reason: str = ""
    draws_min: float | None = None
    draws_max: float | None = None
    within_draws: bool | None = None
    centered_difference: float | None = None


def compare(
    results: ResultTable,
    printed: ResultTable,
    tolerances: Tolerances,
    choices: Mapping[tuple[str, str], Mapping[str, Any]] | None = None,
) -> tuple[Comparison, ...]:
    """Join the results of one scale with the printed numbers on (paper, item, row, metric).

    Args:
        results: all results of the scale.
        printed: the printed numbers; those without a value (lost in print) are passed over.
        tolerances: which class each number falls into.
        choices: ``comparison`` of an item's YAML by (paper, item).

    Returns:
        one comparison per printed number, in the order of ``printed``.
    """
    own = results.select(attackers=(PAPER, UNMARKED))
    by_key = {_key(row): row for row in own.select(variant=AS_DESCRIBED).rows if not row.aside}
    draws = _draws_by_key(own)
    pairs = [
        (_compare_one(target, by_key.get(_key(target)), tolerance, draws.get(_key(target), [])), tolerance)
        for target in printed.rows
        if target.value is not None
        for tolerance in [tolerances.of(target, (choices or {}).get((target.paper, target.item)))]
    ]
    pairs = _judge_spreads(pairs)
    offsets = _group_offsets(pairs)
    return tuple(_center(row, offsets.get(_group(row, tolerance))) for row, tolerance in pairs)


def write_comparison(path: Path, rows: Iterable[Comparison]) -> None:
    """Write ``results/<scale>/comparison.csv``."""
    names = [field.name for field in fields(Comparison)]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["class" if name == "class_name" else name for name in names])
    writer.writerows([_cell(getattr(row, name)) for name in names] for row in rows)
    files.write_text(path, buffer.getvalue())


def read_comparison(path: Path) -> tuple[Comparison, ...]:
    """Read ``results/<scale>/comparison.csv``.

    Raises:
        UserError: the file is missing or damaged.
    """
    try:
        reader = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"), newline=""))
        return tuple(_parse(cells) for cells in reader)
    except FileNotFoundError:
        raise UserError(f"{path} is missing: run snakemake for it first") from None
    except (KeyError, ValueError, TypeError) as error:
        raise UserError(f"{path} is damaged ({error}): delete it and run snakemake again") from None


def _parse(cells: Mapping[str, str]) -> Comparison:
    def number(name: str) -> float | None:
        return float(cells[name]) if cells[name] else None

    return Comparison(
        paper=cells["paper"],
        item=cells["item"],
        row=json.loads(cells["row"]),
        metric=cells["metric"],
        printed=float(cells["printed"]),
        printed_std=number("printed_std"),
        value=number("value"),
        std=number("std"),
        difference=number("difference"),
        tolerance=number("tolerance"),
        class_name=_member(cells["class"], get_args(ClassName)),
        within=_member(cells["within"], get_args(Within)),
        reason=cells["reason"],
        draws_min=number("draws_min"),
        draws_max=number("draws_max"),
        within_draws={"yes": True, "no": False, "": None}[cells["within_draws"]],
        centered_difference=number("centered_difference"),
    )


def _member(text: str, allowed: tuple[Any, ...]) -> Any:
    if text not in allowed:
        raise ValueError(f"{text!r} is not one of {', '.join(allowed)}")
    return text


def _key(row: ResultRow) -> Key:
    return row.paper, row.item, identity(row.row), row.metric


def _draws_by_key(results: ResultTable) -> dict[Key, list[float]]:
    values: dict[Key, list[float]] = {}
    draws = set(results.draws())
    for row in results.rows:
        if row.variant in draws and row.value is not None and not row.substitutes:
            values.setdefault(_key(row), []).append(row.value)
    return values


def _compare_one(target: ResultRow, result: ResultRow | None, tolerance: Tolerance, draws: list[float]) -> Comparison:
    assert target.value is not None
    row = Comparison(
        paper=target.paper,
        item=target.item,
        row=target.row,
        metric=target.metric,
        printed=target.value,
        printed_std=target.std,
        tolerance=tolerance.allowed(target),
        class_name=tolerance.class_name,
    )
    if result is None:
        return replace(row, reason="not run at this scale")
    row = replace(row, value=result.value, std=result.std)
    if result.value is None:
        return replace(row, reason=result.note or "the run gave no number (capped or diverged)")
    if result.substitutes:
        return replace(row, reason=f"rests on a stand-in: {', '.join(result.substitutes)}")
    if draws:
        low, high = min(draws), max(draws)
        row = replace(row, draws_min=low, draws_max=high, within_draws=low <= target.value <= high)
    within, reason = _judge(target, result.value, tolerance)
    return replace(row, difference=result.value - target.value, within=within, reason=reason)


def _judge(target: ResultRow, value: float, tolerance: Tolerance) -> tuple[Within, str]:
    assert target.value is not None
    allowed = tolerance.allowed(target)
    if allowed is not None:
        # one unit in the last place of binary fractions must not decide a comparison of two-digit decimals
        return ("yes" if abs(value - target.value) <= allowed + 1e-9 else "no"), ""
    threshold = tolerance.bands.get(target.metric)
    if tolerance.class_name == "bands" and threshold is not None:
        return ("yes" if (value >= threshold) == (target.value >= threshold) else "no"), ""
    return "not compared", "only the order is judged, by the claims"


def _judge_spreads(pairs: list[tuple[Comparison, Tolerance]]) -> list[tuple[Comparison, Tolerance]]:
    """Judge the cells of class ``spread``: unstable, as in print, or not?

    Their largest standard deviation over the keys ``over`` has to be ``times`` the median of the whole table.
    """
    table: dict[tuple[str, str, str], list[float]] = {}
    groups: dict[Key, list[float | None]] = {}
    for row, tolerance in pairs:
        if row.difference is not None and row.std is not None:
            table.setdefault((row.paper, row.item, row.metric), []).append(row.std)
        groups.setdefault(_without_keys(row, tolerance.over), []).append(
            row.std if row.difference is not None else None
        )

    def judged(row: Comparison, tolerance: Tolerance) -> Comparison:
        if tolerance.class_name != "spread" or row.difference is None:
            return row
        own = groups[_without_keys(row, tolerance.over)]
        known = [std for std in own if std is not None]
        if len(known) < len(own):
            return replace(row, reason="judged by its spread, which needs more than one run of each cell")
        typical = median(table[row.paper, row.item, row.metric])
        return replace(
            row,
            within="yes" if max(known) >= tolerance.times * typical else "no",
            reason=f"judged by its spread: up to {max(known):.3g}, against {typical:.3g} in the middle of the table",
        )

    return [(judged(row, tolerance), tolerance) for row, tolerance in pairs]


def _without_keys(row: Comparison, keys: tuple[str, ...]) -> Key:
    rest = {name: value for name, value in row.row.items() if name not in keys}
    return row.paper, row.item, identity(rest), row.metric


def _group(row: Comparison, tolerance: Tolerance) -> Key | None:
    # where print is unstable a value would only spoil its group's mean
    if tolerance.center_by is None or row.difference is None or tolerance.class_name == "spread":
        return None
    shared = {name: row.row[name] for name in tolerance.center_by if name in row.row}
    return row.paper, row.item, identity(shared), row.metric


def _group_offsets(pairs: Iterable[tuple[Comparison, Tolerance]]) -> dict[Key | None, float]:
    """Return each group's mean difference, which is the difference of its two means."""
    groups: dict[Key | None, list[float]] = {}
    for row, tolerance in pairs:
        group = _group(row, tolerance)
        if group is not None and row.difference is not None:
            groups.setdefault(group, []).append(row.difference)
    return {group: fmean(differences) for group, differences in groups.items()}


def _center(row: Comparison, offset: float | None) -> Comparison:
    if offset is None or row.difference is None:
        return row
    return replace(row, centered_difference=row.difference - offset)


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, dict):
        return canonical(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        # differences of decimals: the digits past the tenth are arithmetic, not measurement
        return format(value, ".10g")
    return value
