"""Result rows of attacks on text: every sentence for the claims, summaries over sentences for the reader.

A metric has its mean and its median; a share has its mean alone, as a median of outcomes is 0 or 1.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from leaklab.items.expand import PlannedRun
from leaklab.metrics.intervals import is_share
from leaklab.metrics.statistics import summarise
from leaklab.report.collect.attack_rows import AttackRows
from leaklab.report.collect.attempts import Attempt, Statistic, cells_of
from leaklab.report.collect.protection import protection_rows
from leaklab.report.collect.source import Source
from leaklab.report.numbers.results import PAPER, ResultRow, RowKeys
from leaklab.specs.text import TextScoreSpec

MEAN, MEDIAN = Statistic("_mean", mean=True), Statistic("_median", mean=False)


def text_rows(source: Source, runs: Sequence[PlannedRun]) -> Iterator[ResultRow]:
    """Yield the rows of one block of attacks on text."""
    cells, shown = cells_of(source, runs), AttackRows(source, _statistics, _sentences)
    for cell in cells:
        yield from shown.of(cell)
    yield from protection_rows(shown, cells)


def absent_text_rows(source: Source, run: PlannedRun, note: str) -> Iterator[ResultRow]:
    """Yield the means of an attack that cannot be done here: no value, no trials, and why."""
    assert isinstance(run.spec, TextScoreSpec)
    if run.attacker == PAPER:  # which of the others is the strongest is not known
        for metric in run.spec.metrics:
            yield source.number(
                f"{metric}_mean",
                row=source.row(run),
                attacker=PAPER,
                variant=run.variant,
                value=None,
                n=0,
                clusters=0,
                note=note,
            )


def _statistics(metric: str) -> tuple[Statistic, ...]:
    return (MEAN,) if is_share(metric) else (MEAN, MEDIAN)


def _sentences(attempt: Attempt, metric: str) -> Iterator[tuple[RowKeys, dict[str, Any]]]:
    """Yield one row per sentence, the mean over its draws: a claim counts every sentence once."""
    group = attempt.of(metric)
    for example, values in group.groupby("example")["value"]:
        mean = summarise(values.to_numpy())
        yield {"example": int(str(example))}, {"value": mean.mean, "std": mean.std, "n": mean.n}
