"""Result rows of attacks: every image for the claims, medians for the reader, the adaptive attacker beside the paper's.

The adaptive attacker of a cell is the one with the lowest median MSE among those that the item tries; its rows carry
``attacker = adaptive`` and name it under ``transform``: a defense-aware transform, or the block of another attack. Rows
that are not an attacker's own choice say so under ``selection``: the oracle's choice among the starts, the two
references, and attackers that were not the worst case.

An item that prints means (``over_images: mean``) has one row per metric instead.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from leaklab.metrics.statistics import summarise
from leaklab.records.attack_spec import ScoreSpec
from leaklab.records.expand import PlannedRun
from leaklab.records.files import read_json, read_table
from leaklab.records.ids import run_folder, run_id
from leaklab.report.collect.source import Source
from leaklab.report.numbers.results import ADAPTIVE, AS_PRINTED, ResultRow, canonical

OWN_CHOICE = "best-by-loss"
DECIDING_METRIC = "mse"
# zero or one per trial: its mean is the share of labels found
SHARE_METRIC = "label_correct"
NOT_AVAILABLE = "not available"


def attack_rows(source: Source, runs: Sequence[PlannedRun]) -> Iterator[ResultRow]:
    """Yield the rows of all attacks of an item."""
    cells: dict[tuple[str, str], list[tuple[PlannedRun, pd.DataFrame]]] = {}
    for run in runs:
        assert run.spec is not None
        scores = read_table(run_folder(run.spec) / "scores.csv")
        cells.setdefault((canonical(source.row(run)), run.variant), []).append((run, scores))
    for attempts in cells.values():
        printed = [attempt for attempt in attempts if not attempt[0].adaptive]
        adaptive = sorted((attempt for attempt in attempts if attempt[0].adaptive), key=lambda a: _level(a[1]))
        for run, scores in printed:
            yield from _attempt_rows(source, run, scores, AS_PRINTED)
            yield from _unavailable_rows(source, run)
        for place, (run, scores) in enumerate(adaptive):
            worst = place == 0
            yield from _attempt_rows(source, run, scores, ADAPTIVE, "" if worst else f"transform {_name(run)}")


def absent_attack_rows(source: Source, run: PlannedRun, note: str) -> Iterator[ResultRow]:
    """Yield the medians of an attack that cannot be done here: no value, no trials, and why."""
    assert isinstance(run.spec, ScoreSpec)
    if run.adaptive:
        return  # which of them is the worst case is not known
    for metric in run.spec.metrics:
        yield _without_value(source, run, _summary_name(source, run, metric.replace("-", "_")), note)


def _unavailable_rows(source: Source, run: PlannedRun) -> Iterator[ResultRow]:
    """Yield the metrics that could not be computed here, and why."""
    assert run.spec is not None
    reasons = read_json(run_folder(run.spec) / "cards.json")["not_available"]
    for metric, reason in reasons.items():
        names = {source.shown_as(run, metric), _summary_name(source, run, metric)}
        yield from (_without_value(source, run, name, f"{NOT_AVAILABLE}: {reason}") for name in sorted(names))


def _without_value(source: Source, run: PlannedRun, name: str, note: str) -> ResultRow:
    return source.number(
        name, row=source.row(run), attacker=AS_PRINTED, variant=run.variant, value=None, n=0, note=note
    )


def _summary_name(source: Source, run: PlannedRun, metric: str) -> str:
    """Return what the summary over the images is called: the metric's own name where the item shows nothing else."""
    shown = source.shown_as(run, metric)
    if source.means_only:
        return shown
    return f"{shown}_{'mean' if metric == SHARE_METRIC else 'median'}"


def _name(run: PlannedRun) -> str:
    """Return how an adaptive attacker is called."""
    assert isinstance(run.spec, ScoreSpec)
    transform = run.spec.attack.transform.name
    return run.block if transform == "none" else transform


def _level(scores: pd.DataFrame) -> float:
    own = scores[(scores["selection"] == OWN_CHOICE) & (scores["metric"] == DECIDING_METRIC)]
    return float(own["value"].median())


def _attempt_rows(
    source: Source, run: PlannedRun, scores: pd.DataFrame, attacker: str, selection: str = ""
) -> Iterator[ResultRow]:
    for (kind, metric), group in scores.groupby(["selection", "metric"], sort=False):
        own = kind == OWN_CHOICE
        if selection and not own:
            continue  # references and oracle are shown once, beside the attacker that counts
        extra = {} if own and not selection else {"selection": selection or str(kind)}
        yield from _metric_rows(source, run, group, str(metric), attacker, extra)


def _metric_rows(
    source: Source, run: PlannedRun, group: pd.DataFrame, metric: str, attacker: str, extra: dict[str, Any]
) -> Iterator[ResultRow]:
    assert isinstance(run.spec, ScoreSpec)
    row = {**source.row(run), **extra}
    if attacker == ADAPTIVE:
        row["transform"] = _name(run)
    shared: dict[str, Any] = {
        "attacker": attacker,
        "variant": run.variant,
        "substitutes": source.substitutes(run.spec),
        "runs": (run_id(run.spec),),
    }
    shown = source.shown_as(run, metric)
    for image, draw, value in zip(group["image"], group["draw"], group["value"], strict=True):
        place = {**row, "image": int(image), "draw": int(draw)}
        if not source.means_only:
            yield source.number(shown, row=place, value=float(value), n=1, **shared)
    images = group["image"].tolist()
    # the draws of an image are not independent; of a single image they are all there is to resample
    groups = images if len(set(images)) > 1 else None
    summary = summarise(group["value"].to_numpy(), source.item.key, canonical(row), metric, groups=groups)
    mean = source.means_only or metric == SHARE_METRIC
    ends = (summary.ci_low, summary.ci_high) if mean else (summary.median_low, summary.median_high)
    yield source.number(
        _summary_name(source, run, metric),
        row=row,
        value=summary.mean if mean else summary.median,
        std=summary.std,
        n=summary.n,
        ci_low=ends[0],
        ci_high=ends[1],
        **shared,
    )
