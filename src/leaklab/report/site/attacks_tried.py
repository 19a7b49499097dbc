"""What an item's page shows beside the two attackers: every attack that was tried, and the protection that is left."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from leaklab.items.expand import PlannedRun
from leaklab.items.items import Item
from leaklab.observations.update_bounds import UpdateBound, bound_of
from leaklab.report.collect.source import row_of
from leaklab.report.judge.attackers import Interval, Setting, contested, setting_of
from leaklab.report.numbers.results import (
    AS_DESCRIBED,
    BY,
    KNOWING,
    PROTECTION_LEFT,
    SUMMARIES,
    TRIED,
    ResultRow,
    ResultTable,
    RowKeys,
    identity,
)


@dataclass(frozen=True)
class TriedAttack:
    """One attack in one setting.

    Attributes:
        row: the setting's keys.
        attack: attack and transform.
        metric: what was measured.
        unit: of the value.
        value: of the attack.
        interval: 95 % interval of it over the updates; None where there is none.
        strongest: whether it is the knowing attacker's.
    """

    row: RowKeys
    attack: str
    metric: str
    unit: str
    value: float | None
    interval: Interval | None
    strongest: bool


@dataclass(frozen=True)
class Left:
    """Protection that is left of one attacker, in percent between nothing and all; ``why`` there is no value."""

    value: float | None
    interval: Interval | None = None
    why: str = ""


@dataclass(frozen=True)
class ProtectionLeft:
    """Protection that a defended setting leaves, by attacker."""

    row: RowKeys
    by_attacker: Mapping[str, Left]


@dataclass(frozen=True)
class Unbroken:
    """A defended setting of which no attack that was tried read much.

    Attributes:
        row: the setting's keys.
        left: protection left of the knowing attacker, in percent between nothing and all.
        interval: of it.
        attacks: all that were tried on it, attack and transform.
        bound: why nobody can read it, whoever tries; empty where that is not proven.
    """

    row: RowKeys
    left: float
    interval: Interval
    attacks: tuple[str, ...]
    bound: str = ""


HALF = 50.0
"""Percent of protection that must be left, by the lower end of the interval, for a setting to count as not broken."""


def tried_attacks(
    results: ResultTable, headline: str, several: frozenset[Setting] | None = None
) -> tuple[TriedAttack, ...]:
    """Return all attacks by an item's headline metric, in the settings in which more than one was tried.

    Args:
        results: of one item.
        headline: metric; itself, or its median, or its mean, whichever of them comes first.
        several: ``contested`` of the rows, where it is known.
    """
    rows = results.select(variant=AS_DESCRIBED).rows
    tried = [row for row in rows if row.aside == (TRIED,)]
    measured = {row.metric for row in tried}
    metric = next((name for name in _named(headline) if headline and name in measured), "")
    several = contested(results) if several is None else several
    strongest = {
        (identity(_without(row, BY)), row.row.get(BY))
        for row in rows
        if row.attacker == KNOWING and row.metric == metric and not row.aside
    }
    return tuple(
        TriedAttack(
            row=_without(row, TRIED),
            attack=str(row.row[TRIED]),
            metric=row.metric,
            unit=row.unit,
            value=row.value,
            interval=_interval(row),
            strongest=(identity(_without(row, TRIED)), row.row[TRIED]) in strongest,
        )
        for row in tried
        if row.metric == metric and setting_of(row) in several
    )


def protection_left(results: ResultTable) -> tuple[ProtectionLeft, ...]:
    """Return an item's protection left, a line per defended setting, in the table's order."""
    found: dict[str, tuple[RowKeys, dict[str, Left]]] = {}
    for row in results.select(metric=PROTECTION_LEFT, variant=AS_DESCRIBED).rows:
        keys = _without(row, BY)
        ends = _interval(row)
        interval = (_share(ends[0]), _share(ends[1])) if ends else None
        found.setdefault(identity(keys), (keys, {}))[1][row.attacker] = Left(row.shown, interval, row.note)
    return tuple(ProtectionLeft(keys, lines) for keys, lines in found.values())


def bounds_of(item: Item, runs: Iterable[PlannedRun]) -> dict[str, str]:
    """Return what is proven of a setting, whoever attacks, by ``identity`` of its keys; settings without a proof aside.

    Where the attacks of a setting are on several captures, the one of which least is proven counts.

    Raises:
        UserError: the item has no ``cells``, or a defense's setting is unknown.
    """
    found: dict[str, set[UpdateBound]] = {}
    for run in runs:
        if attack := run.tried:
            found.setdefault(identity(row_of(item, run)), set()).add(bound_of(attack.capture))
    weakest = {key: max(own, key=_proven_to) for key, own in found.items()}
    return {key: own.sentence for key, own in weakest.items() if own.decides}


def unbroken(
    protection: Iterable[ProtectionLeft], tried: Iterable[TriedAttack], bounds: Mapping[str, str]
) -> tuple[Unbroken, ...]:
    """Return the settings that the knowing attacker surely leaves more than half of their protection.

    A setting with fewer updates than an interval needs is none of them, nor is one on which one attack was tried.

    Args:
        protection: what is left in each setting.
        tried: the attacks.
        bounds: what is proven whoever attacks, see ``bounds_of``.
    """
    attacks: dict[str, list[str]] = {}
    for one in tried:
        attacks.setdefault(identity(one.row), []).append(one.attack)
    left = ((identity(line.row), line, line.by_attacker.get(KNOWING)) for line in protection)
    return tuple(
        Unbroken(line.row, known.value, known.interval, tuple(attacks[key]), bounds.get(key, ""))
        for key, line, known in left
        if known and known.value is not None and known.interval and known.interval[0] > HALF
        if len(attacks.get(key, ())) > 1
    )


def _proven_to(bound: UpdateBound) -> float:
    return math.inf if bound.variation is None else bound.variation


def _named(headline: str) -> Iterator[str]:
    yield from (f"{headline}{suffix}" for suffix in ("", *SUMMARIES))


def _without(row: ResultRow, key: str) -> RowKeys:
    return {name: value for name, value in row.row.items() if name != key}


def _interval(row: ResultRow) -> Interval | None:
    return None if row.ci_low is None or row.ci_high is None else (row.ci_low, row.ci_high)


def _share(value: float) -> float:
    return min(max(value, 0.0), 100.0)
