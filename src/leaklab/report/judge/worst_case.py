"""The results under the strongest of all attackers that were run, the paper's included."""

from collections.abc import Iterable
from dataclasses import replace
from statistics import median

from leaklab.report.numbers.results import ADAPTIVE, INDEX, ResultRow, ResultTable, identity

TRANSFORM = "transform"
SELECTION = "selection"
TRIED = ("transform ", "attack ")
"""How the selection of a row begins that belongs to an attacker who was tried beside the adaptive one."""
ATTEMPTS = ("image", "example", "draw", INDEX)

Setting = tuple[str, ...]
Rivals = dict[str, list[ResultRow]]


def worst_case(results: ResultTable) -> ResultTable:
    """Return the rows with those of one attacker left in each setting: the strongest of all that were run there.

    A setting is what rows of one metric share besides attacker, transform, image and draw. The strongest attacker is
    the one whose median leaves the least privacy by the metric's own ``better``, so that another metric may have
    another; of equal ones the paper's. Where a metric has no direction (curves), it is the adaptive one. Transform
    and attack are taken out of the row's keys, so that a claim finds the row by the paper's own keys.
    """
    settings = _settings(results.rows)
    chosen = {setting: _strongest(rivals) for setting, rivals in settings.items()}
    return ResultTable(tuple(_named_alike(row) for row in results.rows if _attacker(row) == chosen[setting_of(row)]))


def contested(results: ResultTable) -> frozenset[Setting]:
    """Return the settings in which more than one attacker was run."""
    return frozenset(setting for setting, rivals in _settings(results.rows).items() if len(rivals) > 1)


def setting_of(row: ResultRow) -> Setting:
    """Return what rows of all attackers share that are about the same setting and metric."""
    keys = {key: value for key, value in _own_keys(row).items() if key not in ATTEMPTS}
    return row.paper, row.item, row.metric, row.variant, identity(keys)


def _settings(rows: Iterable[ResultRow]) -> dict[Setting, Rivals]:
    settings: dict[Setting, Rivals] = {}
    for row in rows:
        settings.setdefault(setting_of(row), {}).setdefault(_attacker(row), []).append(row)
    return settings


def _attacker(row: ResultRow) -> str:
    """Return which attacker a row is of: the paper's, the adaptive one, or one that was tried beside it."""
    return f"{row.attacker} {row.row[SELECTION]}" if _was_tried(row) else row.attacker


def _was_tried(row: ResultRow) -> bool:
    return str(row.row.get(SELECTION, "")).startswith(TRIED)


def _strongest(rivals: Rivals) -> str:
    better = {row.better for rows in rivals.values() for row in rows}
    if better not in ({"higher"}, {"lower"}):
        return ADAPTIVE if ADAPTIVE in rivals else next(iter(rivals))
    sign = 1 if better == {"higher"} else -1
    levels = {name: _level(rows) for name, rows in rivals.items()}
    known = {name: sign * level for name, level in levels.items() if level is not None}
    return min(known, key=known.__getitem__) if known else next(iter(rivals))


def _level(rows: list[ResultRow]) -> float | None:
    values = [row.value for row in rows if row.value is not None]
    return median(values) if values else None


def _named_alike(row: ResultRow) -> ResultRow:
    return replace(row, row=_own_keys(row))


def _own_keys(row: ResultRow) -> dict[str, object]:
    gone = (TRANSFORM, SELECTION) if _was_tried(row) else (TRANSFORM,)
    return {key: value for key, value in row.row.items() if key not in gone}
