"""Result rows of attacks on text: every sentence for the claims, means and medians over sentences for the reader.

The adaptive attacker of a cell is the attack with the highest median token recovery among those that the paper does not
use (of equal ones the highest mean); its rows carry ``attacker = adaptive`` and name it under ``transform``. Rows that
are not that attacker's answer say so under ``selection``: the two references, and attacks that were not the worst case.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from leaklab.metrics.statistics import summarise
from leaklab.metrics.text.scoring import OWN_CHOICE
from leaklab.records.errors import UserError
from leaklab.records.expand import PlannedRun
from leaklab.records.files import read_table
from leaklab.records.ids import run_folder, run_id
from leaklab.records.text_specs import PRINTED_ATTACK, TextScoreSpec
from leaklab.report.collect.source import Source
from leaklab.report.numbers.results import ADAPTIVE, AS_PRINTED, ResultRow, canonical

DECIDING_METRIC = "token_recovery"
Attempt = tuple[PlannedRun, pd.DataFrame]


def text_rows(source: Source, runs: Sequence[PlannedRun]) -> Iterator[ResultRow]:
    """Yield the rows of one block of attacks on text."""
    cells: dict[str, list[Attempt]] = {}
    for run in runs:
        assert run.spec is not None
        scores = read_table(run_folder(run.spec) / "scores.csv")
        cells.setdefault(canonical(source.row(run)), []).append((run, scores))
    for attempts in cells.values():
        for run, scores in attempts:
            if attack_of(run) == PRINTED_ATTACK:
                yield from _attempt_rows(source, run, scores, AS_PRINTED)
        for place, (run, scores) in enumerate(by_danger(attempts)):
            selection = f"attack {attack_of(run)}" if place else ""
            yield from _attempt_rows(source, run, scores, ADAPTIVE, selection)


def absent_text_rows(source: Source, run: PlannedRun, note: str) -> Iterator[ResultRow]:
    """Yield the means of an attack that cannot be done here: no value, no trials, and why."""
    assert isinstance(run.spec, TextScoreSpec)
    if attack_of(run) == PRINTED_ATTACK:  # which of the others is the worst case is not known
        for metric in run.spec.metrics:
            yield source.number(
                f"{metric}_mean",
                row=source.row(run),
                attacker=AS_PRINTED,
                variant=run.variant,
                value=None,
                n=0,
                note=note,
            )


def by_danger(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Return the attempts of attackers that the paper does not use, the highest median token recovery first."""
    others = [attempt for attempt in attempts if attack_of(attempt[0]) != PRINTED_ATTACK]
    return sorted(others, key=lambda attempt: _level(attempt[1]), reverse=True)


def attack_of(run: PlannedRun) -> str:
    """Return the name of a run's attack."""
    assert isinstance(run.spec, TextScoreSpec)
    return run.spec.attack.attack.name


def _level(scores: pd.DataFrame) -> tuple[float, float]:
    """Return median and mean: where half of the sentences are read whole, the others decide."""
    own = scores[(scores["selection"] == OWN_CHOICE) & (scores["metric"] == DECIDING_METRIC)]
    if own.empty:
        raise UserError(f"attacks on text are compared by {DECIDING_METRIC}: add it to the metrics of the block")
    return float(own["value"].median()), float(own["value"].mean())


def _attempt_rows(
    source: Source, run: PlannedRun, scores: pd.DataFrame, attacker: str, selection: str = ""
) -> Iterator[ResultRow]:
    for (kind, metric), group in scores.groupby(["selection", "metric"], sort=False):
        own = kind == OWN_CHOICE
        if attacker == ADAPTIVE and not own:
            continue  # references are shown once, beside the attacker of the paper
        extra = {} if own and not selection else {"selection": selection or str(kind)}
        yield from _metric_rows(source, run, group, str(metric), attacker, extra)


def _metric_rows(
    source: Source, run: PlannedRun, group: pd.DataFrame, metric: str, attacker: str, extra: dict[str, Any]
) -> Iterator[ResultRow]:
    assert isinstance(run.spec, TextScoreSpec)
    row = {**source.row(run), **extra, **({"transform": attack_of(run)} if attacker == ADAPTIVE else {})}
    shared: dict[str, Any] = {
        "attacker": attacker,
        "variant": run.variant,
        "substitutes": source.substitutes(run.spec),
        "runs": (run_id(run.spec),),
    }
    for example in sorted(set(group["example"].tolist())):
        of_example = group[group["example"] == example]
        # one row per sentence, the mean over its draws: a claim counts every sentence once
        mean = summarise(of_example["value"].to_numpy(), source.item.key, canonical(row), metric, example)
        place = {**row, "example": example}
        yield source.number(metric, row=place, value=mean.mean, std=mean.std, n=mean.n, **shared)
    over = summarise(
        group["value"].to_numpy(), source.item.key, canonical(row), metric, groups=group["example"].tolist()
    )
    interval = {"ci_low": over.ci_low, "ci_high": over.ci_high}
    yield source.number(f"{metric}_mean", row=row, value=over.mean, std=over.std, n=over.n, **interval, **shared)
    interval = {"ci_low": over.median_low, "ci_high": over.median_high}
    yield source.number(f"{metric}_median", row=row, value=over.median, std=over.std, n=over.n, **interval, **shared)
