"""Result rows of training sweeps: one cell per setting of the rates, with its curves and its rounds to a goal."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median, stdev
from typing import Any

import pandas as pd

from leaklab.items.expand import PlannedRun
from leaklab.metrics.statistics import summarise
from leaklab.records.errors import UserError
from leaklab.records.files import read_table
from leaklab.records.record import canonical_json
from leaklab.report.collect.embeddings import embedding_rows
from leaklab.report.collect.source import Source
from leaklab.report.numbers.results import INDEX, ResultRow, RowKeys, canonical
from leaklab.specs.base import run_folder, run_id
from leaklab.specs.training import TrainSpec

ACCURACIES = ("test_accuracy", "train_accuracy", "validation_accuracy", "own_after_accuracy", "own_before_accuracy")
BACKBONE_CHANGED = "backbone_checksum_changed"
FIRST_OF = {
    "test": "test_accuracy",
    "train": "train_accuracy",
    "validation": "validation_accuracy",
    "own-test": "own_after_accuracy",
}
DIVERGED = "diverged_runs"
CAPPED = "capped_runs"
ROUNDS_TO_TARGET = "rounds_to_target"
ROUND = "round"
BUDGET = "epsilon"


@dataclass
class _Cell:
    """One setting with the replicates of all runs that differ in their seeds only.

    Attributes:
        row: the cell's keys.
        runs: the runs.
        sweeps: for each run, the setting's lines of ``sweep.parquet``.
    """

    row: RowKeys
    runs: list[PlannedRun] = field(default_factory=list)
    sweeps: list[pd.DataFrame] = field(default_factory=list)

    @property
    def first(self) -> PlannedRun:
        """The run that stands for all where they agree."""
        return self.runs[0]

    @property
    def spec(self) -> TrainSpec:
        """The spec of the first run."""
        assert isinstance(self.first.spec, TrainSpec)
        return self.first.spec

    def lines(self) -> pd.DataFrame:
        """Return the lines of all replicates by rising round, numbered anew in the column ``replicate``."""
        numbered = [
            sweep.assign(replicate=str(place) + "/" + sweep["replicate"].astype(str))
            for place, sweep in enumerate(self.sweeps)
        ]
        return pd.concat(numbered, ignore_index=True).sort_values(ROUND, kind="stable")


def training_rows(source: Source, runs: Sequence[PlannedRun]) -> Iterator[ResultRow]:
    """Yield each cell's final accuracy, its counts of lost replicates, its rounds to the goal and its curves.

    Runs of a block that differ in nothing but seeds (of the training or of the deal) share a cell.
    """
    cells: dict[tuple[str, str, str], _Cell] = {}
    for run in runs:
        assert isinstance(run.spec, TrainSpec)
        sweep = read_table(run_folder(run.spec) / "sweep.parquet")
        for rates in run.spec.rates:
            row = source.row(run, rates=list(rates))
            key = canonical(row), run.variant, _without_seeds(run.spec, rates)
            cell = cells.setdefault(key, _Cell(row))
            cell.runs.append(run)
            cell.sweeps.append(_replicates(sweep, rates))
    for cell in cells.values():
        yield from _cell_rows(source, cell)
    if source.item.cells and source.item.cells.embedding:
        for run in runs:
            yield from embedding_rows(source, run, source.item.cells.embedding)


def absent_training_rows(source: Source, run: PlannedRun, note: str) -> Iterator[ResultRow]:
    """Yield the rows of a run that cannot be done here: no value, no replicates, and why."""
    assert isinstance(run.spec, TrainSpec)
    metric = ROUNDS_TO_TARGET if run.spec.goal else FIRST_OF[run.spec.evaluate[0]]
    names = [metric, *(name for name in source.renamed(run) if name != metric)]
    for rates in run.spec.rates:
        row = source.row(run, rates=list(rates))
        for name in names:
            shown = source.shown_as(run, name)
            yield source.number(shown, row=row, variant=run.variant, value=None, n=0, clusters=0, note=note)


def _without_seeds(spec: TrainSpec, rates: Sequence[float]) -> str:
    shared = spec.model_dump(mode="json", exclude={"seeds": True, "rates": True, "partition": {"seed"}})
    return canonical_json({**shared, "rates": list(rates)})


def _replicates(sweep: pd.DataFrame, rates: Sequence[float]) -> pd.DataFrame:
    """Return the lines of one setting; a setting with fewer rates than others leaves their columns empty."""
    chosen = sweep
    for name in (name for name in sweep.columns if name.startswith("rate_")):
        place = int(name.removeprefix("rate_"))
        chosen = chosen[chosen[name] == rates[place]] if place < len(rates) else chosen[chosen[name].isna()]
    return chosen


def _cell_rows(source: Source, cell: _Cell) -> Iterator[ResultRow]:
    specs = [run.spec for run in cell.runs if isinstance(run.spec, TrainSpec)]
    shared: dict[str, Any] = {
        "variant": cell.first.variant,
        "substitutes": tuple(dict.fromkeys(text for spec in specs for text in source.substitutes(spec))),
        "runs": tuple(dict.fromkeys(run_id(spec) for spec in specs)),
    }
    lines = cell.lines()
    last = lines.groupby("replicate", sort=False).tail(1)
    lost = int(last["diverged"].astype(bool).sum())
    if lost:
        yield source.number(DIVERGED, row=cell.row, value=float(lost), n=len(last), clusters=len(last), **shared)
    yield from _final_rows(source, cell, last, shared)
    if BUDGET in last.columns:
        # the client, seed and deal that spend most
        spent = float(last[BUDGET].max())
        yield source.number(BUDGET, row=cell.row, value=spent, n=len(last), clusters=len(last), **shared)
    if cell.spec.goal:
        yield from _goal_rows(source, cell, lines, shared)
    yield from _series_rows(source, cell, lines, shared)


def _final_rows(source: Source, cell: _Cell, last: pd.DataFrame, shared: dict[str, Any]) -> Iterator[ResultRow]:
    """Yield the accuracy in each replicate's last round; replicates may stop in different ones."""
    alive = last[~last["diverged"].astype(bool)]
    for metric in (name for name in (*ACCURACIES, BACKBONE_CHANGED) if name in last.columns):
        name = source.shown_as(cell.first, metric)
        if alive.empty:
            note = f"diverged: all {_runs(len(last))}"
            yield source.number(name, row=cell.row, value=None, n=0, clusters=0, note=note, **shared)
            continue
        summary = summarise(alive[metric].to_numpy())
        yield source.number(
            name,
            row=cell.row,
            value=summary.mean,
            std=summary.std,
            ci_low=summary.ci_low,
            ci_high=summary.ci_high,
            n=summary.n,
            clusters=summary.clusters,
            **shared,
        )


def _goal_rows(source: Source, cell: _Cell, lines: pd.DataFrame, shared: dict[str, Any]) -> Iterator[ResultRow]:
    """Yield the median of the first rounds that reached the goal; a median that is not known is never a number."""
    first: list[float] = []
    for _, own in lines.groupby("replicate", sort=False):
        reached = own[own["reached"].astype(bool) & ~own["diverged"].astype(bool)]
        first.append(float(reached[ROUND].iloc[0]) if len(reached) else math.inf)
    capped = sum(map(math.isinf, first))
    middle = median(first)
    known = math.isfinite(middle)
    note = "" if known else f"capped: {capped} of {_runs(len(first))} did not get there in {cell.spec.rounds} rounds"
    spread = stdev(first) if len(first) > 1 and not capped else None
    yield source.number(CAPPED, row=cell.row, value=float(capped), n=len(first), clusters=len(first), **shared)
    yield source.number(
        ROUNDS_TO_TARGET,
        row=cell.row,
        value=middle if known else None,
        std=spread,
        n=len(first),
        clusters=len(first),
        note=note,
        **shared,
    )


def _series_rows(source: Source, cell: _Cell, lines: pd.DataFrame, shared: dict[str, Any]) -> Iterator[ResultRow]:
    """Yield the mean over the replicates in each tested round; a replicate counts until it diverges."""
    wanted = source.item.cells.series if source.item.cells else ()
    missing = [name for name in wanted if name not in lines.columns]
    if missing:
        raise UserError(
            f"config/items/{source.item.key}.yaml: cells.series: the runs have no column '{missing[0]}': they have "
            f"{', '.join(lines.columns)} (see 'evaluate' of the runs)"
        )
    for name in wanted:
        for index, (number, of_round) in enumerate(lines.groupby(ROUND)):
            alive = of_round[~of_round["diverged"].astype(bool)]
            gone = {} if len(alive) or name == ROUND else {"note": f"diverged: all {_runs(len(of_round))}"}
            values = alive[name].astype(float)
            yield source.number(
                source.shown_as(cell.first, name),
                row={**cell.row, INDEX: index},
                # a round is known even where no replicate is left
                value=float(str(number)) if name == ROUND else float(values.mean()) if len(values) else None,
                std=float(values.std(ddof=1)) if len(values) > 1 and name != ROUND else None,
                n=len(values),
                clusters=len(values),
                **gone,
                **shared,
            )


def _runs(count: int) -> str:
    return f"{count} run{'' if count == 1 else 's'}"
