"""From an item's runs to its long result table."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leaklab.records.config import Scale
from leaklab.records.errors import UserError
from leaklab.records.expand import PlannedRun, block_stage, expand
from leaklab.records.files import read_json
from leaklab.records.ids import canonical_json
from leaklab.records.items import Item, RowValue
from leaklab.records.specs import ScoreSpec, TrainSpec
from leaklab.report.collect_architecture import architecture_rows
from leaklab.report.collect_attacks import attack_rows
from leaklab.report.collect_training import training_rows
from leaklab.report.results import ResultRow, ResultTable

PREPARED = Path("data/prepared")
Collector = Callable[["Source", Sequence[PlannedRun]], Iterator[ResultRow]]


@dataclass(frozen=True)
class Source:
    """What the collectors of one item share.

    Attributes:
        item: the item.
        scale: its scale.
        at_paper_scale: canonical JSON of the specs that the item runs at scale ``paper``.
        replaced: data set of this scale -> data set that stands in its place at scale ``paper``.
    """

    item: Item
    scale: Scale
    at_paper_scale: frozenset[str]
    replaced: Mapping[str, str]

    def row(self, run: PlannedRun, **more: Any) -> dict[str, Any]:
        """Return the row keys of a run; ``more`` are values that the run itself does not know (the setting's rates)."""
        if self.item.cells is None:
            raise UserError(f"config/items/{self.item.key}.yaml: 'cells' is missing")
        known = {**run.choice, **more}
        return {key: _value(known, source, self.item) for key, source in self.item.cells.row.items()}

    def substitutes(self, spec: TrainSpec | ScoreSpec) -> tuple[str, ...]:
        """Return the stand-ins that a run rests on; a number with any is never compared with a printed one."""
        dataset = spec.attack.capture.dataset if isinstance(spec, ScoreSpec) else spec.dataset
        found = [read_json(PREPARED / f"{dataset}.json").get("substitute")]
        if dataset in self.replaced:
            found.append(f"{dataset} in place of {self.replaced[dataset]}")
        if canonical_json(spec) not in self.at_paper_scale:
            found.append(f"reduced setting of scale {self.scale}")
        return tuple(text for text in found if text)

    def number(self, metric: str, **fields: Any) -> ResultRow:
        """Return a result row with the item's unit and direction for the metric."""
        meaning = (
            self.item.cells.metrics.get(metric.removesuffix("_median").removesuffix("_mean"))
            if self.item.cells
            else None
        )
        fallback = self.item.cells
        return ResultRow(
            paper=self.item.paper,
            item=self.item.item,
            metric=metric,
            unit=meaning.unit if meaning else fallback.unit if fallback else "",
            better=meaning.better if meaning else fallback.better if fallback else "",
            **fields,
        )


def collect(item: Item, scale: Scale) -> ResultTable:
    """Read all runs of an item at a scale and return its result table.

    Raises:
        UserError: a run's file is missing or damaged, or a row key does not point into the runs.
    """
    runs = expand(item, scale)
    as_printed = _specs(item, "paper")
    replaced = _replaced(_datasets(_specs(item, scale)), _datasets(as_printed))
    source = Source(item, scale, frozenset(canonical_json(spec) for spec in as_printed), replaced)
    rows: list[ResultRow] = []
    for block in dict.fromkeys(run.block for run in runs):
        of_block = [run for run in runs if run.block == block]
        rows.extend(COLLECTORS[block_stage(of_block[0])](source, of_block))
    return ResultTable(tuple(rows))


COLLECTORS: dict[str, Collector] = {
    "train": training_rows,
    "score": attack_rows,
    "architecture": architecture_rows,
}


def _specs(item: Item, scale: Scale) -> list[TrainSpec | ScoreSpec]:
    return [run.spec for run in expand(item, scale) if isinstance(run.spec, TrainSpec | ScoreSpec)]


def _datasets(specs: Sequence[TrainSpec | ScoreSpec]) -> list[str]:
    names = [spec.attack.capture.dataset if isinstance(spec, ScoreSpec) else spec.dataset for spec in specs]
    return list(dict.fromkeys(names))


def _replaced(here: list[str], at_paper_scale: list[str]) -> dict[str, str]:
    """Return what stands in for what: data sets pair up in the order of the item's file."""
    every = ", ".join(at_paper_scale)
    pairs = zip(here, at_paper_scale, strict=True) if len(here) == len(at_paper_scale) else ((d, every) for d in here)
    return {own: meant for own, meant in pairs if own not in at_paper_scale}


def _value(choice: Mapping[str, Any], source: str | RowValue, item: Item) -> Any:
    path, names = (source, {}) if isinstance(source, str) else (source.source, source.names)
    value: Any = choice
    for part in path.split("."):
        try:
            value = value[int(part)] if isinstance(value, list | tuple) else value[part]
        except (KeyError, IndexError, ValueError, TypeError):
            raise UserError(f"config/items/{item.key}.yaml: cells.row: '{path}' does not point into the runs") from None
    return names.get(value, value) if isinstance(value, str) else value
