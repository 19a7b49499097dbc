"""Result rows of attacks on images: every image for the claims, medians over the updates for the reader.

A share has its mean in place of a median. An item that prints means (``over_images: mean``) has one row per metric
under the metric's own name, and behind it every update's mean, with the key ``update``: a number that the same images
have in all rows of the item, so that a claim can compare two settings update by update.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from leaklab.items.expand import PlannedRun
from leaklab.metrics.intervals import is_share
from leaklab.metrics.statistics import by_cluster
from leaklab.records.files import read_json
from leaklab.report.collect.attack_rows import AttackRows
from leaklab.report.collect.attempts import Attempt, Cell, Statistic, cells_of
from leaklab.report.collect.protection import protection_rows
from leaklab.report.collect.source import Source
from leaklab.report.numbers.results import PAPER, UPDATE, ResultRow, RowKeys
from leaklab.report.numbers.words import unavailable
from leaklab.specs.attack import ScoreSpec
from leaklab.specs.base import run_folder

NOT_AVAILABLE = "not available"
PROVES_NOTHING = "proves nothing: the attack gives no certificates"
WITHOUT_VALUE = {
    "label_correct": "not guessed: the attack names no label",
    "certified": PROVES_NOTHING,
    "false_certificate": PROVES_NOTHING,
}
"""Why an attack that was run has no value of a metric; such lines are left out of ``scores.csv``."""
Numbers = Mapping[Hashable, int]
"""The number of every update of an item, by its data and samples."""


def attack_rows(source: Source, runs: Sequence[PlannedRun]) -> Iterator[ResultRow]:
    """Yield the rows of all attacks of an item."""

    def statistics(metric: str) -> tuple[Statistic, ...]:
        return (_statistic(source, metric),)

    def singles(attempt: Attempt, metric: str) -> Iterator[tuple[RowKeys, dict[str, Any]]]:
        return _updates(attempt, metric, numbers) if source.means_only else _images(attempt, metric)

    cells = cells_of(source, runs)
    numbers, shown = _numbered(cells), AttackRows(source, statistics, singles)
    for cell in cells:
        yield from shown.of(cell)
        for attempt in cell.attempts:
            if attempt.run.attacker == PAPER:
                yield from _unavailable_rows(source, attempt.run)
                yield from _rows_without_value(source, attempt)
    yield from protection_rows(shown, cells)


def absent_attack_rows(source: Source, run: PlannedRun, note: str) -> Iterator[ResultRow]:
    """Yield the medians of an attack that cannot be done here: no value, no trials, and why."""
    assert isinstance(run.spec, ScoreSpec)
    if run.attacker == PAPER:  # which of the others is the strongest is not known
        for metric in run.spec.metrics:
            yield _without_value(source, run, _summary_name(source, run, metric.replace("-", "_")), note)


def _unavailable_rows(source: Source, run: PlannedRun) -> Iterator[ResultRow]:
    """Yield the metrics that could not be computed here, and why."""
    assert run.spec is not None
    reasons = unavailable(read_json(run_folder(run.spec) / "cards.json"))
    for metric, reason in reasons.items():
        names = {source.shown_as(run, metric), _summary_name(source, run, metric)}
        yield from (_without_value(source, run, name, f"{NOT_AVAILABLE}: {reason}") for name in sorted(names))


def _rows_without_value(source: Source, attempt: Attempt) -> Iterator[ResultRow]:
    """Yield the metrics of which an attack has no value on any update that speaks, and why."""
    assert isinstance(attempt.run.spec, ScoreSpec)
    asked = {"label_correct", *(name.replace("-", "_") for name in attempt.run.spec.metrics)}
    for metric, note in WITHOUT_VALUE.items() if attempt.metrics else ():
        if metric in asked and metric not in attempt.metrics:
            yield _without_value(source, attempt.run, _summary_name(source, attempt.run, metric), note)


def _without_value(source: Source, run: PlannedRun, name: str, note: str) -> ResultRow:
    return source.number(
        name, row=source.row(run), attacker=PAPER, variant=run.variant, value=None, n=0, clusters=0, note=note
    )


def _statistic(source: Source, metric: str) -> Statistic:
    """Return the summary over the images; it has the metric's own name where the item shows nothing else."""
    if source.means_only:
        return Statistic("", mean=True)
    return Statistic("_mean", mean=True) if is_share(metric) else Statistic("_median", mean=False)


def _summary_name(source: Source, run: PlannedRun, metric: str) -> str:
    return f"{source.shown_as(run, metric)}{_statistic(source, metric).suffix}"


def _images(attempt: Attempt, metric: str) -> Iterator[tuple[RowKeys, dict[str, Any]]]:
    group = attempt.of(metric)
    for image, draw, value in zip(group["image"], group["draw"], group["value"], strict=True):
        yield {"image": int(image), "draw": int(draw)}, {"value": float(value), "n": 1}


def _numbered(cells: Sequence[Cell]) -> Numbers:
    """Return the numbers of all updates of an item, from 1, in the order of its cells."""
    found: dict[Hashable, int] = {}
    for attempt in (attempt for cell in cells for attempt in cell.attempts):
        for name in attempt.updates.names.values():
            found.setdefault((attempt.data, name), len(found) + 1)
    return found


def _updates(attempt: Attempt, metric: str, numbers: Numbers) -> Iterator[tuple[RowKeys, dict[str, Any]]]:
    """Yield the mean of every update, or of whatever else is one cluster: the mean of these is the item's number."""
    lines, names = attempt.of(metric), attempt.updates.names
    clusters = by_cluster(lines["value"].to_numpy(), attempt.updates.clusters_of(lines))
    for cluster, values in clusters.items():
        number = numbers[attempt.data, names[cluster]]
        yield {UPDATE: number}, {"value": float(values.mean()), "n": values.size}
