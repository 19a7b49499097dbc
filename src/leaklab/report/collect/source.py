"""What the collectors of one item share: its row keys, its units, and what stands in for what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leaklab.items.expand import PlannedRun
from leaklab.items.items import Cells, Item, MetricMeaning, RowValue
from leaklab.metrics.silence import NO_INFORMATION_CARD
from leaklab.records.config import Scale
from leaklab.records.errors import UserError
from leaklab.records.files import read_json
from leaklab.records.record import canonical_json
from leaklab.report.numbers.results import ResultRow, summarised
from leaklab.specs.attack import CheckSpec, LandscapeSpec, ScoreSpec
from leaklab.specs.base import has_frozen_part
from leaklab.specs.text import TEXT_FOLDER, TextScoreSpec
from leaklab.specs.training import TrainSpec

if TYPE_CHECKING:
    import pandas as pd

PREPARED = Path("data/prepared")
# an item's own unit and direction are those of its accuracies
KNOWN_MEANINGS = {
    "protection_left": MetricMeaning(better="higher", unit="%"),
    NO_INFORMATION_CARD.name: MetricMeaning(better="higher", unit=NO_INFORMATION_CARD.unit),
    "round": MetricMeaning(),
    "diverged_runs": MetricMeaning(),
    "capped_runs": MetricMeaning(),
    "epsilon": MetricMeaning(better="lower"),
    "rounds_to_target": MetricMeaning(better="lower", unit="rounds"),
    "train_loss": MetricMeaning(better="lower"),
    "test_loss": MetricMeaning(better="lower"),
    "validation_loss": MetricMeaning(better="lower"),
    "backbone_checksum_changed": MetricMeaning(),
}
Attacked = ScoreSpec | LandscapeSpec
Collected = TrainSpec | Attacked | TextScoreSpec | CheckSpec


@dataclass(frozen=True)
class Source:
    """What the collectors of one item share.

    Attributes:
        item: the item.
        scale: its scale.
        at_paper_scale: canonical JSON of the specs that the item runs at scale ``paper``.
        replaced: data set of this scale -> data set that stands in its place at scale ``paper``.
        networks: data set of scale ``paper`` -> networks that are trained or attacked on it there.
        generators: plug-ins of the generators at scale ``paper``.
        distances: metrics of the landscapes at scale ``paper``.
    """

    item: Item
    scale: Scale
    at_paper_scale: frozenset[str]
    replaced: Mapping[str, str]
    networks: Mapping[str, Collection[str]]
    generators: tuple[str, ...] = ()
    distances: tuple[str, ...] = ()

    @property
    def means_only(self) -> bool:
        """Whether attacks are shown by the means over their images alone."""
        return self.item.cells is not None and self.item.cells.over_images == "mean"

    @property
    def against(self) -> str:
        """The block beside whose attack the others of a cell are put; empty for none."""
        return self.item.cells.against if self.item.cells else ""

    def renamed(self, run: PlannedRun) -> Mapping[str, str]:
        """Return metric -> name in print, where the two differ."""
        return self.item.cells.metric_as.get(run.block, {}) if self.item.cells else {}

    def shown_as(self, run: PlannedRun, metric: str) -> str:
        """Return the name under which a metric of a run is shown."""
        return self.renamed(run).get(metric, metric)

    def row(self, run: PlannedRun, **more: Any) -> dict[str, Any]:
        """Return the row keys of a run; ``more`` are values that the run itself does not know (the setting's rates)."""
        known = {**run.choice, **more}
        return _row(self.item, known)

    def substitutes(self, spec: Collected) -> tuple[str, ...]:
        """Return the stand-ins that a run rests on; a number with any is never compared with a printed one."""
        dataset = dataset_of(spec)
        found = [read_json(PREPARED / f"{dataset}.json").get("substitute")] if dataset else []
        if dataset in self.replaced:
            found.append(f"{dataset} in place of {self.replaced[dataset]}".replace(TEXT_FOLDER, ""))
        meant = self.networks.get(self.replaced.get(dataset, dataset), ())
        network = network_of(spec)
        if network and meant and network not in meant:
            found.append(f"{network} in place of {', '.join(meant)}")
        found.append(_substitute_backbone(spec))
        found.append(self._substitute_generator(spec))
        found.append(self._substitute_metric(spec))
        if canonical_json(spec) not in self.at_paper_scale:
            found.append(f"reduced setting of scale {self.scale}")
        return tuple(text for text in found if text)

    def _substitute_generator(self, spec: Collected) -> str:
        prior = spec.attack.generator if isinstance(spec, Attacked) else None
        if prior is None or not self.generators or prior.model.name in self.generators:
            return ""
        sides = "x".join(str(side) for side in read_json(PREPARED / f"{prior.dataset}.json").get("shape", []))
        made = f"{prior.model.name} ({sides}, {prior.steps} steps on {prior.dataset})"
        return f"{made} in place of {', '.join(self.generators)}"

    def _substitute_metric(self, spec: Collected) -> str:
        """A landscape's distance is one of its two axes, so another one than the paper's is a stand-in."""
        if not isinstance(spec, LandscapeSpec):
            return ""
        absent = [name for name in self.distances if name not in spec.metrics]
        if not absent:
            return ""
        others = [name for name in spec.metrics if name not in self.distances] or list(spec.metrics)
        return f"{', '.join(others)} in place of {', '.join(absent)}"

    def meaning(self, metric: str) -> MetricMeaning | Cells:
        """Return the unit and direction of a metric, under the name under which it is shown."""
        cells, name = self.item.cells, summarised(metric)
        return (cells.metrics.get(name) if cells else None) or KNOWN_MEANINGS.get(name) or cells or MetricMeaning()

    def number(self, metric: str, **fields: Any) -> ResultRow:
        """Return a result row with the item's unit and direction for the metric."""
        meaning = self.meaning(metric)
        return ResultRow(
            paper=self.item.paper,
            item=self.item.item,
            metric=metric,
            unit=meaning.unit,
            better=meaning.better,
            **fields,
        )


def row_of(item: Item, run: PlannedRun) -> dict[str, Any]:
    """Return the row keys of a run, from the item's ``cells``.

    Raises:
        UserError: there are none, or one does not point into the run.
    """
    return _row(item, run.choice)


def _substitute_backbone(spec: Collected) -> str:
    """A backbone that is not published stands for one that is; the reader learns what it saw."""
    if not isinstance(spec, TrainSpec) or not has_frozen_part(spec.model.name):
        return ""
    if spec.backbone is None:
        return "untrained backbone"
    own = spec.backbone.train
    return f"backbone {own.model.name} trained on {own.dataset}" if own else ""


def dataset_of(spec: Collected) -> str:
    """Return the data set that a run rests on; empty for a check without a deal."""
    if isinstance(spec, TextScoreSpec):
        return TEXT_FOLDER + spec.attack.capture.dataset
    return spec.attack.capture.dataset if isinstance(spec, Attacked) else spec.dataset


def network_of(spec: Collected) -> str:
    """Return the network that is trained or attacked; empty for a check."""
    if isinstance(spec, Attacked):
        return spec.attack.capture.model.name
    return spec.model.name if isinstance(spec, TrainSpec) else ""


def _row(item: Item, known: Mapping[str, Any]) -> dict[str, Any]:
    if item.cells is None:
        raise UserError(f"config/items/{item.key}.yaml: 'cells' is missing")
    return {key: _value(known, source, item) for key, source in item.cells.row.items()}


def _value(choice: Mapping[str, Any], source: str | RowValue, item: Item) -> Any:
    path, names = (source, {}) if isinstance(source, str) else (source.source, source.names)
    value: Any = choice
    for part in path.split("."):
        try:
            value = value[int(part)] if isinstance(value, list | tuple) else value[part]
        except (KeyError, IndexError, ValueError, TypeError):
            raise UserError(f"config/items/{item.key}.yaml: cells.row: '{path}' does not point into the runs") from None
    return names.get(value, value) if isinstance(value, str) else value


# The updates behind the scores of one attack: which say nothing, whose samples they hold, what counts together.

NO_INFORMATION = NO_INFORMATION_CARD.name
TRAINING = "training"
"""Column of scores that are of several trainings."""
Trial = Hashable
"""The number of a trial."""
Samples = tuple[int, ...]
"""Indices of private images, or the number of a sentence."""
Name = tuple[Samples, int, int]
"""The samples of a cluster, its draw, and how many clusters with the same ones stand before it."""


@dataclass(frozen=True, eq=False)
class Updates:
    """What is known of an attack's trials, by rising number.

    Attributes:
        held: the samples of its update.
        together: the samples of all updates of its training, where there are several; else of its update.
        draws: its draw of the defense.
        clusters: what its values count with.
        silent: how many other trials have updates that say nothing.
    """

    held: dict[Trial, Samples]
    together: dict[Trial, Samples]
    draws: dict[Trial, int]
    clusters: dict[Trial, Hashable]
    silent: int

    @classmethod
    def of(cls, scores: pd.DataFrame) -> "Updates":  # noqa: UP037  as text it keeps the digest of all tables
        """Return what the lines of ``scores.csv`` tell, whatever metric they are of."""
        counts = scores["metric"] == NO_INFORMATION
        lines, silent, samples = scores[~counts], int(scores.loc[counts, "value"].sum()), samples_column(scores)
        held = _sets(lines, "trial", samples)
        trials = lines.drop_duplicates("trial").set_index("trial")
        if TRAINING in scores.columns:
            clusters: dict[Trial, Hashable] = trials[TRAINING].to_dict()
            shared = _sets(lines, TRAINING, samples)
            together = {trial: shared[training] for trial, training in clusters.items()}
        else:
            several = len(set(held.values())) > 1 or silent > 0  # of several updates one may be left that speaks
            clusters, together = {trial: own if several else trial for trial, own in held.items()}, held
        return cls(held, together, trials["draw"].to_dict(), clusters, silent)

    @property
    def names(self) -> dict[Hashable, Name]:
        """What names each cluster among those of other attacks on the same data: two attacks agree on its samples."""
        found: dict[Hashable, Name] = {}
        met: Counter[tuple[Samples, int]] = Counter()
        for trial in self.held:
            cluster = self.clusters[trial]
            if cluster not in found:
                own = self.together[trial], self.draws[trial] if cluster == trial else 0
                found[cluster] = (*own, met[own])
                met[own] += 1
        return found

    def clusters_of(self, lines: pd.DataFrame) -> list[Hashable]:
        """Return the cluster of each line."""
        return [self.clusters[trial] for trial in lines["trial"]]

    def together_of(self, lines: pd.DataFrame) -> list[Samples]:
        """Return the samples of each line's update, or of its training, where there are several."""
        return [self.together[trial] for trial in lines["trial"]]

    def places_of(self, lines: pd.DataFrame) -> list[tuple[Hashable, ...]]:
        """Return what each line is of; two series with the same places go together value by value."""
        sample = lines[samples_column(lines)]
        return [
            (self.clusters[trial], self.held[trial], self.draws[trial], one)
            for trial, one in zip(lines["trial"], sample, strict=True)
        ]


def samples_column(scores: pd.DataFrame) -> str:
    """Return the column that says which private image or which sentence a line is of."""
    return "image" if "image" in scores.columns else "example"


def _sets(lines: pd.DataFrame, by: str, column: str) -> dict[Hashable, Samples]:
    return {key: tuple(sorted(set(own))) for key, own in lines.groupby(by)[column]}
