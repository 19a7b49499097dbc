"""Result rows of training sweeps: mean, spread and interval over seeds, one row per setting of the rates."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from leaklab.metrics.statistics import summarise
from leaklab.records.expand import PlannedRun
from leaklab.records.files import read_table
from leaklab.records.ids import run_folder, run_id
from leaklab.records.specs import TrainSpec
from leaklab.report.results import ResultRow, canonical

if TYPE_CHECKING:
    from leaklab.report.collect import Source

METRIC = "test_accuracy"
DIVERGED = "diverged_runs"


def training_rows(source: "Source", runs: Sequence[PlannedRun]) -> Iterator[ResultRow]:
    """Yield accuracy after the last round, and the number of diverged replicates where there are any."""
    for run in runs:
        assert isinstance(run.spec, TrainSpec)
        sweep = read_table(run_folder(run.spec) / "sweep.parquet")
        last = sweep[sweep["round"] == sweep["round"].max()]
        for rates in run.spec.rates:
            yield from _setting_rows(source, run, list(rates), _replicates(last, rates))


def _replicates(last: pd.DataFrame, rates: Sequence[float]) -> pd.DataFrame:
    chosen = last
    for place, rate in enumerate(rates):
        chosen = chosen[chosen[f"rate_{place}"] == rate]
    return chosen


def _setting_rows(source: "Source", run: PlannedRun, rates: list[float], last: pd.DataFrame) -> Iterator[ResultRow]:
    assert isinstance(run.spec, TrainSpec)
    row = source.row(run, rates=rates)
    shared: dict[str, Any] = {
        "row": row,
        "variant": run.variant,
        "substitutes": source.substitutes(run.spec),
        "runs": (run_id(run.spec),),
    }
    alive = last[~last["diverged"].astype(bool)]
    lost = len(last) - len(alive)
    if lost:
        yield source.number(DIVERGED, value=float(lost), n=len(last), **shared)
    if alive.empty:
        yield source.number(METRIC, value=None, n=0, **shared)
        return
    summary = summarise(alive[METRIC].to_numpy(), source.item.key, canonical(row), run.variant)
    yield source.number(
        METRIC,
        value=summary.mean,
        std=summary.std,
        ci_low=summary.ci_low,
        ci_high=summary.ci_high,
        n=summary.n,
        **shared,
    )
