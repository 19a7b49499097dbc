"""The plan: every run that the items of a scale need, with what each reads.

Snakemake owns the DAG; this is the list that its rules look things up in. It is rebuilt in every Snakemake process,
so nothing here imports torch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from leaklab.data.catalog import Entry, find_entry, load_catalog
from leaklab.data.text.catalog import find_text
from leaklab.observations.client_requirements import check_client, check_server, samples_seen
from leaklab.observations.requirements import check as check_threat_model
from leaklab.observations.requirements import check_batch, check_generator, check_transform
from leaklab.observations.text_requirements import check as check_text
from leaklab.planning.asked_budget import check_asked_budget
from leaklab.planning.code import code_of
from leaklab.planning.first_layer import check_first_layer
from leaklab.planning.headline import check_headline
from leaklab.planning.least_batch import check_least_batch
from leaklab.planning.row_keys import check_row_keys
from leaklab.planning.several_batches import check_batches
from leaklab.records import plugins
from leaklab.records.attack_spec import AttackSpec, ScoreSpec
from leaklab.records.attacker_spec import told
from leaklab.records.canonical import canonical_json
from leaklab.records.capture_spec import CaptureSpec, ClientChoice, TextCaptureSpec
from leaklab.records.check_spec import CheckSpec
from leaklab.records.config import SCALES, Scale
from leaklab.records.errors import UserError
from leaklab.records.expand import PlannedRun, expand
from leaklab.records.generator_spec import GeneratorSpec
from leaklab.records.ids import run_folder, run_id, stage_of
from leaklab.records.items import Item
from leaklab.records.landscape_spec import LandscapeSpec, ProjectionSpec
from leaklab.records.partition_spec import PartitionSpec
from leaklab.records.spec_plugins import reads_the_update
from leaklab.records.specs import Spec
from leaklab.records.state_spec import TrainedState
from leaklab.records.text_specs import TEXT_FOLDER, TextAttackSpec, TextScoreSpec
from leaklab.records.train_spec import TrainSpec

PREPARED = Path("data/prepared")


@dataclass(frozen=True)
class Job:
    """One job of a stage.

    Attributes:
        spec: what runs.
        needs: runs whose files it reads.
        dataset: dataset whose prepared file it reads, if any; below ``text/`` where it holds sentences.
    """

    spec: Spec
    needs: tuple[Spec, ...]
    dataset: str

    @cached_property
    def name(self) -> str:
        """Return the run id; to compute one takes long, and a plan asks for thousands of them many times."""
        return run_id(self.spec)

    @cached_property
    def folder(self) -> Path:
        """Return the run's folder."""
        return run_folder(self.spec)

    @cached_property
    def read_runs(self) -> tuple[tuple[str, str], ...]:
        """Return stage and id of each run whose files it reads."""
        return tuple((stage_of(spec), run_id(spec)) for spec in self.needs)

    @property
    def text(self) -> str:
        """Return the spec as canonical JSON."""
        return canonical_json(self.spec)

    @property
    def told(self) -> str:
        """Return what the job's step is told as canonical JSON: an attacker nothing of the capture."""
        return canonical_json(told(self.spec))

    @cached_property
    def code(self) -> str:
        """Return the digest of the code that the job runs."""
        return code_of(self.spec).digest


@dataclass
class Plan:
    """All jobs by stage and run id, and the runs of each item at each scale."""

    items: Mapping[str, Item]
    jobs: dict[str, dict[str, Job]] = field(default_factory=dict)
    datasets: set[str] = field(default_factory=set)
    runs: dict[tuple[Scale, str], list[PlannedRun]] = field(default_factory=dict)

    def job(self, stage: str, name: str) -> Job:
        """Return the job of a stage by run id."""
        return self.jobs[stage][name]

    def ready(self, scale: Scale) -> list[Item]:
        """Return the items that are made with the scale: those that run there, without those that stand apart."""
        runs = [item for item in self.items.values() if (scale, item.key) in self.runs]
        return [item for item in runs if not item.scales[scale].apart]

    def jobs_of(self, scale: Scale, item: Item) -> list[Job]:
        """Return every job that the item needs at this scale, each once, in the order of the road."""
        found: dict[str, Job] = {}
        for run in self.runs[scale, item.key]:
            if run.spec is not None:
                self._collect(stage_of(run.spec), run_id(run.spec), found)
        return list(found.values())

    def _collect(self, stage: str, name: str, found: dict[str, Job]) -> None:
        job = self.jobs[stage][name]
        for needed in job.read_runs:
            self._collect(*needed, found)
        found[f"{stage}/{name}"] = job

    def add(self, spec: Spec) -> None:
        """Add a run and all that it needs."""
        stage, name = stage_of(spec), run_id(spec)
        known = self.jobs.setdefault(stage, {})
        if name in known:
            if known[name].text != canonical_json(spec):
                raise UserError(f"two {stage} runs share the id {name}: lengthen HASH_LENGTH in records/ids.py")
            return
        needs, dataset = _needs(spec)
        for needed in needs:
            self.add(needed)
        if dataset and dataset not in self.datasets:
            self._find(dataset)
            self.datasets.add(dataset)
        known[name] = Job(spec, needs, dataset)

    def _find(self, dataset: str) -> None:
        """Refuse a data set that no catalog has, before a job asks for it."""
        name = dataset.removeprefix(TEXT_FOLDER)
        if name != dataset:
            find_text(name)
        else:
            find_entry(name, self._catalog)

    @cached_property
    def _catalog(self) -> dict[str, Entry]:
        return load_catalog()


def _needs(spec: Spec) -> tuple[tuple[Spec, ...], str]:
    if isinstance(spec, CheckSpec):
        deal = spec.partition and PartitionSpec(dataset=spec.dataset, partition=spec.partition)
        return ((deal,) if deal else ()), ""
    if isinstance(spec, CaptureSpec):
        return _needs_of_capture(spec), spec.dataset
    if isinstance(spec, PartitionSpec | GeneratorSpec):
        return (), spec.dataset
    if isinstance(spec, TextCaptureSpec):
        return (), TEXT_FOLDER + spec.dataset
    if isinstance(spec, TrainSpec):
        pretrained = spec.backbone.train if spec.backbone else None
        deal = PartitionSpec(dataset=spec.dataset, partition=spec.partition)
        return ((deal, pretrained) if isinstance(pretrained, TrainSpec) else (deal,)), spec.dataset
    if isinstance(spec, AttackSpec):
        return (spec.capture, *filter(None, [spec.generator])), ""
    if isinstance(spec, ProjectionSpec):
        return (spec.generator,), spec.dataset
    if isinstance(spec, LandscapeSpec):
        return (*_needs(spec.attack)[0], spec.attack, spec.projection), ""
    if isinstance(spec, TextAttackSpec):
        return (spec.capture,), ""
    if isinstance(spec, TextScoreSpec):
        return (spec.attack.capture, spec.attack), TEXT_FOLDER + spec.attack.capture.dataset
    read = any(reads_the_update(name) for name in spec.metrics)
    # the dataset gives score_attack its reference pictures
    return (*(_needs(spec.attack)[0] if read else [spec.attack.capture]), spec.attack), spec.attack.capture.dataset


def _needs_of_capture(spec: CaptureSpec) -> tuple[Spec, ...]:
    """Return the deal whose clients are captured or the generator of their images, and the training of their state."""
    needs: list[Spec] = []
    if isinstance(spec.images, ClientChoice):
        needs.append(PartitionSpec(dataset=spec.dataset, partition=spec.images.partition))
    elif spec.images.planted:
        needs.append(spec.images.planted)
    if isinstance(spec.state, TrainedState):
        needs.append(spec.state.train)
    return tuple(needs)


def build_plan(items: Mapping[str, Item], scales: Sequence[Scale] = SCALES) -> Plan:
    """Expand all items at some scales.

    Raises:
        UserError: an item file is wrong, or asks for a pair of attack and threat model that cannot be.
    """
    plan = Plan(items)
    for item in items.values():
        for scale in scales:
            if item.made and scale in item.scales and not item.scales[scale].planned:
                runs = expand(item, scale)
                if not runs and item.scales[scale].missing:
                    continue
                plan.runs[scale, item.key] = runs
                for run in runs:
                    _add_checked(plan, item, run)
    return plan


def _add_checked(plan: Plan, item: Item, run: PlannedRun) -> None:
    try:
        check_row_keys(item, run)
        if isinstance(run.spec, TrainSpec):
            check_least_batch(run.spec)
            check_asked_budget(run.spec)
        if isinstance(run.spec, ScoreSpec):
            check_headline(item, run.spec)
        if isinstance(run.spec, ScoreSpec | LandscapeSpec):
            check_least_batch(run.spec.attack.capture)
            check_asked_budget(run.spec.attack.capture)
            _check_attack(run.spec.attack)
        if isinstance(run.spec, LandscapeSpec):
            _check_landscape(run.spec)
        if isinstance(run.spec, TextScoreSpec):
            check_text(run.spec.attack)
        if run.spec is not None:
            plan.add(run.spec)
    except UserError as error:
        raise UserError(f"config/items/{item.key}.yaml: runs.{run.block}: {error}") from None


def _check_attack(attack: AttackSpec) -> None:
    check_threat_model(
        attack.attack.name,
        attack.attack.settings,
        attack.capture.threat_model,
        attack.transform.name,
        attack.transform.settings,
        attack.capture.kind,
        attack.generator,
    )
    check_server(attack.capture)
    seen = samples_seen(attack.capture)
    check_batch(attack.attack.name, seen, attack.attack.settings)
    check_client(attack.attack.name, attack.capture)
    check_first_layer(attack)
    check_transform(attack.transform.name, attack.capture.defense.name, seen)
    check_generator(attack)
    check_batches(attack)


def _check_landscape(spec: LandscapeSpec) -> None:
    """Refuse a metric that measures no distance between images."""
    for name in spec.metrics:
        if reads_the_update(name) or plugins.class_attribute("metrics", name, "reads_the_search") is not None:
            raise UserError(f"metric '{name}' compares no images: name it in a block of attacks")


def result_files(item: Item, scale: str) -> dict[str, Path]:
    """Return the files that make_table and make_figure leave for an item."""
    table, figure = Path("results", scale, item.paper), Path("figures", scale, item.paper)
    return {
        "csv": table / f"{item.item}.csv",
        "markdown": table / f"{item.item}.md",
        "latex": table / f"{item.item}.tex",
        "table_record": table / f"{item.item}.run.json",
        "png": figure / f"{item.item}.png",
        "pdf": figure / f"{item.item}.pdf",
        "data": figure / f"{item.item}.npz",
        "figure_record": figure / f"{item.item}.run.json",
    }
