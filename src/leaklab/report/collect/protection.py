"""Result rows of defenses: ``protection_left`` by the mean squared error, and what each metric changes by.

Where images have no such error (text, features), it goes by the item's headline metric. A share of decibels would tell
another story: most of them may be gone while everybody still recognises the picture.

0 % is the knowing attacker without defense, 100 % the best reference: the answer of somebody who knows no more than the
label. A defended cell is compared with the undefended one whose clients held the same images, and of several with the
one that shares most of its keys. Where an item calls a row ``none``, that is the undefended one, and a method whose
client adds nothing but sends something else (HyperFL) is held against it too. A change is that of the same update under
the same attacker (the knowing one's strongest attack on either side); where there are several trainings, of the same
training, as its updates share its weights.

Both are told of the updates that have a value on both sides; where that is not all of them, a note says so. An update
that says nothing is never a protection.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from leaklab.metrics.intervals import paired_difference_for
from leaklab.metrics.protection import protection_left
from leaklab.metrics.statistics import by_cluster
from leaklab.report.collect.attack_rows import AttackRows
from leaklab.report.collect.attempts import OWN_CHOICE, Attempt, Cell, Statistic
from leaklab.report.numbers.results import (
    BLIND,
    BY,
    BY_DEFENSE,
    DIFFERENCE,
    KNOWING,
    PAPER,
    PROTECTION_LEFT,
    ResultRow,
)

NO_PREMISE = "no premise: no protection can be told, as the undefended attack is no better than the reference"
ERROR = "mse"
UNDEFENDED = "none"
"""What a row key calls a client without any defense."""
Levels = dict[Hashable, float]
Floats = NDArray[np.float64]


def protection_rows(shown: AttackRows, cells: Sequence[Cell]) -> Iterator[ResultRow]:
    """Yield the rows of every defended cell that has an undefended partner; only changes without a headline."""
    undefended = _undefended(cells)
    for cell in cells:
        metric = _measure(shown, cell)
        partner = None if cell in undefended else _partner(cell, undefended)
        if partner and metric:
            yield from _rows(shown, cell, partner, metric)
        if partner:
            yield from _changes(shown, cell, partner)


def _undefended(cells: Sequence[Cell]) -> list[Cell]:
    plain = [cell for cell in cells if all(attempt.undefended for attempt in cell.attempts)]
    return [cell for cell in plain if UNDEFENDED in cell.row.values()] or plain


def _measure(shown: AttackRows, cell: Cell) -> str:
    """Return the metric that protection is told by; empty where the item has no headline or did not measure it."""
    first, headline = cell.attempts[0], shown.source.item.headline
    if headline and ERROR in first.metrics:
        return ERROR
    return next((metric for metric in first.metrics if shown.source.shown_as(first.run, metric) == headline), "")


def _partner(cell: Cell, undefended: Sequence[Cell]) -> Cell | None:
    alike = [one for one in undefended if one.variant == cell.variant and _same_images(one, cell)]
    return max(alike, key=lambda one: sum(one.row.get(k) == v for k, v in cell.row.items()), default=None)


def _same_images(one: Cell, other: Cell) -> bool:
    """Return whether both are of the same images; what one lacks has to be an update of its that says nothing."""
    first, second = one.attempts[0], other.attempts[0]
    held, also = set(first.updates.held.values()), set(second.updates.held.values())
    lacking = len(also - held) <= first.updates.silent and len(held - also) <= second.updates.silent
    return first.data == second.data and bool(held & also) and lacking


def _rows(shown: AttackRows, cell: Cell, partner: Cell, metric: str) -> Iterator[ResultRow]:
    statistic = shown.statistics(metric)[0]
    better = shown.source.meaning(shown.source.shown_as(cell.attempts[0].run, metric)).better
    strongest, before = (shown.strongest(one, metric, statistic) for one in (cell, partner))
    if strongest is None or before is None:
        return
    for attacker, attempt in ((PAPER, cell.by(PAPER)), (BLIND, cell.by(BLIND)), (KNOWING, strongest)):
        if attempt is None:
            continue
        sides = [_levels(one, metric, statistic) for one in (before, attempt)]
        guesses = _references(partner, metric, statistic)
        keys, (undefended, defended, *answers) = _common(*sides, *guesses)
        if not keys or not answers:
            continue
        most = (min if better == "higher" else max)(answers, key=lambda one: _middle(one, statistic))
        found = protection_left(undefended, defended, most, better, median=not statistic.mean)  # type: ignore[arg-type]
        yield shown.source.number(
            PROTECTION_LEFT,
            row={**cell.row, **({BY: attempt.name} if attacker == KNOWING else {})},
            value=found.value if found else None,
            ci_low=found.low if found else None,
            ci_high=found.high if found else None,
            n=len(keys),
            clusters=len(keys),
            attacker=attacker,
            variant=cell.variant,
            substitutes=shown.source.substitutes(attempt.run.spec),  # type: ignore[arg-type]
            runs=(*attempt.ids, *before.ids),
            note=_over(keys, attempt, before) if found else NO_PREMISE,
        )


def _changes(shown: AttackRows, cell: Cell, partner: Cell) -> Iterator[ResultRow]:
    """Yield, of each metric with a direction, the result under the defense minus that without, update by update."""
    for metric in dict.fromkeys(name for attempt in cell.attempts for name in attempt.metrics):
        for statistic in shown.statistics(metric):
            strongest, before = (shown.strongest(one, metric, statistic) for one in (cell, partner))
            for attacker, attempt, undefended in (
                (PAPER, cell.by(PAPER), partner.by(PAPER)),
                (KNOWING, strongest, before),
            ):
                if strongest is None or attempt is None or undefended is None:
                    continue
                sides = [_levels(each, metric, statistic) for each in (attempt, undefended)]
                keys, (own, other) = _common(*sides)
                if not keys:
                    continue
                summary = paired_difference_for(metric, own, other)
                more = {**({BY: attempt.name} if attacker == KNOWING else {}), DIFFERENCE: BY_DEFENSE}
                row = shown.summary_row(cell, attempt, metric, statistic, summary, attacker, more, undefended.ids)
                yield replace(row, note=_over(keys, attempt, undefended))


def _over(keys: Sequence[Hashable], attempt: Attempt, undefended: Attempt) -> str:
    """Return of how many updates a comparison is, and why not of the others; empty where it is of all."""
    one, other = (set(each.updates.together.values()) for each in (attempt, undefended))
    every = max(len(one | other), attempt.count, undefended.count)
    why = "say nothing" if set(keys) == one & other else "have no value"
    return "" if len(keys) == every else f"over {len(keys)} of {every} updates: the others {why}"


def _levels(attempt: Attempt, metric: str, statistic: Statistic, selection: str = OWN_CHOICE) -> Levels:
    """Return each update's (or training's) level, its draws taken together."""
    lines = attempt.of(metric, selection)
    middle = np.mean if statistic.mean else np.median
    own = by_cluster(lines["value"].to_numpy(), attempt.updates.together_of(lines))
    return {key: float(middle(values)) for key, values in own.items()}


def _references(cell: Cell, metric: str, statistic: Statistic) -> list[Levels]:
    """Return the levels of each answer that needs no update, as far as the metric has them."""
    first = cell.attempts[0]
    return list(filter(None, (_levels(first, metric, statistic, kind) for kind in first.references)))


def _common(*levels: Levels) -> tuple[list[Hashable], list[Floats]]:
    """Return the keys that all have, in the order of the first, and the levels of each there, [K]."""
    keys = [key for key in levels[0] if all(key in other for other in levels[1:])]
    return keys, [np.array([own[key] for key in keys], dtype=np.float64) for own in levels]


def _middle(levels: Floats, statistic: Statistic) -> float:
    return float(levels.mean() if statistic.mean else np.median(levels))
