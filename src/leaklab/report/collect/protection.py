"""Result rows of defenses: ``protection_left`` by the mean squared error, and what each metric changes by.

Where images have no such error (text, features), it goes by the item's headline metric. A share of decibels would tell
another story: most of them may be gone while everybody still recognises the picture.

0 % is the knowing attacker without defense, 100 % the best reference: the answer of somebody who knows no more than the
label. A defended cell is compared with the undefended one whose clients held the same images, and of several with the
one that shares most of its keys. Where an item calls a row ``none``, that is the undefended one, and a method whose
client adds nothing but sends something else (HyperFL) is held against it too. A change is that of the same update under
the same attacker (the knowing one's strongest attack on either side).
"""

from collections.abc import Hashable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from leaklab.metrics.protection import protection_left
from leaklab.metrics.statistics import by_cluster, paired_difference
from leaklab.report.collect.attack_rows import AttackRows
from leaklab.report.collect.attempts import OWN_CHOICE, Attempt, Cell, Statistic, updates_of
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
    alike = [one for one in undefended if one.variant == cell.variant and _held(one) == _held(cell)]
    return max(alike, key=lambda one: sum(one.row.get(k) == v for k, v in cell.row.items()), default=None)


def _held(cell: Cell) -> set[Hashable]:
    capture = cell.attempts[0].run.spec.attack.capture  # type: ignore[union-attr]
    return {capture.dataset, *updates_of(cell.attempts[0].scores)}


def _rows(shown: AttackRows, cell: Cell, partner: Cell, metric: str) -> Iterator[ResultRow]:
    statistic = shown.statistics(metric)[0]
    better = shown.source.meaning(shown.source.shown_as(cell.attempts[0].run, metric)).better
    strongest, before = (shown.strongest(one, metric, statistic) for one in (cell, partner))
    if strongest is None or before is None:
        return
    reference = _best_reference(partner, metric, statistic, better)
    for attacker, attempt in ((PAPER, cell.by(PAPER)), (BLIND, cell.by(BLIND)), (KNOWING, strongest)):
        if attempt is None:
            continue
        levels = [_levels(before, metric, statistic), _levels(attempt, metric, statistic), reference]
        keys = list(levels[0])
        undefended, defended, most = (np.array([of[key] for key in keys]) for of in levels)
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
            note="" if found else NO_PREMISE,
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
                one, other = (_levels(each, metric, statistic) for each in (attempt, undefended))
                if not one or one.keys() != other.keys():
                    continue
                summary = paired_difference(list(one.values()), [other[key] for key in one])
                keys = {**({BY: attempt.name} if attacker == KNOWING else {}), DIFFERENCE: BY_DEFENSE}
                yield shown.summary_row(cell, attempt, metric, statistic, summary, attacker, keys, undefended.ids)


def _levels(attempt: Attempt, metric: str, statistic: Statistic, selection: str = OWN_CHOICE) -> Levels:
    """Return each update's level, its draws taken together."""
    lines = attempt.of(metric, selection)
    middle = np.mean if statistic.mean else np.median
    return {key: float(middle(own)) for key, own in by_cluster(lines["value"].to_numpy(), updates_of(lines)).items()}


def _best_reference(cell: Cell, metric: str, statistic: Statistic, better: str) -> Levels:
    first = cell.attempts[0]
    found = [_levels(first, metric, statistic, kind) for kind in first.references]
    return (min if better == "higher" else max)(found, key=lambda one: _middle(one, statistic))


def _middle(levels: Levels, statistic: Statistic) -> float:
    values: NDArray[np.float64] = np.array(list(levels.values()))
    return float(values.mean() if statistic.mean else np.median(values))
