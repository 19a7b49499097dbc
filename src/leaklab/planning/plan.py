"""The plan: every run that the items of a scale need, with what each reads.

Snakemake owns the DAG; this is the list that its rules look things up in. It is rebuilt in every Snakemake process,
so nothing here imports torch.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

from leaklab.data.catalog import Entry, find_entry, find_text, load_catalog
from leaklab.items.expand import PlannedRun, expand
from leaklab.items.items import Item
from leaklab.planning.checks import check_run
from leaklab.planning.code import code_of
from leaklab.planning.kept_runs import KeptJob, KeptRuns
from leaklab.planning.spec_texts import SpecTexts
from leaklab.records.config import SCALES, Scale
from leaklab.records.errors import UserError
from leaklab.records.progress import tracked
from leaklab.records.record import canonical_json
from leaklab.specs.base import RUNS, Spec, run_id
from leaklab.specs.text import TEXT_FOLDER

PREPARED = Path("data/prepared")
SHOWN = ("csv", "png")
"""Which of an item's result files have to be there for it to be done."""


@dataclass(frozen=True)
class Job:
    """One job of a stage.

    Attributes:
        spec: what runs.
    """

    spec: Spec

    @cached_property
    def needs(self) -> tuple[Spec, ...]:
        """Return the runs whose files it reads."""
        return self.spec.needs()

    @property
    def dataset(self) -> str:
        """Return the data set whose prepared file it reads, if any; below ``text/`` where it holds sentences."""
        return self.spec.read_dataset

    @cached_property
    def name(self) -> str:
        """Return the run id; to compute one takes long, and a plan asks for thousands of them many times."""
        return run_id(self.spec)

    @cached_property
    def folder(self) -> Path:
        """Return the run's folder."""
        return RUNS / self.spec.stage / self.name

    @cached_property
    def read_runs(self) -> tuple[tuple[str, str], ...]:
        """Return stage and id of each run whose files it reads."""
        return tuple((spec.stage, run_id(spec)) for spec in self.needs)

    @cached_property
    def text(self) -> str:
        """Return the spec as canonical JSON."""
        return canonical_json(self.spec)

    @property
    def told(self) -> str:
        """Return what the job's step is told as canonical JSON: an attacker nothing of the capture."""
        return canonical_json(self.spec.told())

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
    _added: dict[int, tuple[Spec, str]] = field(default_factory=dict, repr=False, compare=False)
    _texts: SpecTexts = field(default_factory=SpecTexts, repr=False, compare=False)

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
        for spec in asked_for(self.runs[scale, item.key]):
            self._collect(spec.stage, self.add(spec), found)
        return list(found.values())

    def _collect(self, stage: str, name: str, found: dict[str, Job]) -> None:
        job = self.jobs[stage][name]
        for needed in job.read_runs:
            self._collect(*needed, found)
        found[f"{stage}/{name}"] = job

    def add(self, spec: Spec) -> str:
        """Add a run and all that it needs; return its id."""
        # most runs that others need are parts of them; each spec is kept, so that no other can take its place
        if id(spec) not in self._added:
            self._added[id(spec)] = spec, self._enter(spec)
        return self._added[id(spec)][1]

    def _enter(self, spec: Spec) -> str:
        name = self._texts.run_id(spec)
        if not self._has(spec, name):
            job = Job(spec)
            self._keep(job, name, tuple((needed.stage, self.add(needed)) for needed in job.needs))
        return name

    def take(self, kept: KeptRuns) -> None:
        """Add the jobs of an item that another plan had.

        Raises:
            UserError: no catalog has a data set.
        """
        for spec, name, reads in kept.jobs:
            if not self._has(spec, name):
                self._keep(Job(spec), name, reads)
            self._added[id(spec)] = spec, name

    def _has(self, spec: Spec, name: str) -> bool:
        known = self.jobs.setdefault(spec.stage, {})
        if name not in known:
            return False
        if known[name].spec != spec and known[name].text != Job(spec).text:  # equal ones are told apart much sooner
            raise UserError(f"two {spec.stage} runs share the id {name}: lengthen HASH_LENGTH in specs/base.py")
        return True

    def _keep(self, job: Job, name: str, reads: tuple[tuple[str, str], ...]) -> None:
        # as if it had been asked: these are cached properties
        vars(job).update(name=name, read_runs=reads)
        if job.dataset and job.dataset not in self.datasets:
            self._find(job.dataset)
            self.datasets.add(job.dataset)
        self.jobs[job.spec.stage][name] = job

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


def asked_for(runs: Sequence[PlannedRun]) -> Iterator[Spec]:
    """Yield what runs of an item are, states that they keep first; nothing for those of which nothing runs."""
    for run in runs:
        yield from run.kept
        if run.spec is not None:
            yield run.spec


class Keeper(Protocol):
    """What has the runs of items from processes before, and keeps those of this one (``kept_plans.py``)."""

    def find(self, item: Item, scale: Scale) -> KeptRuns | None:
        """Return the runs of an item; None where they are not known."""

    def note(self, item: Item, scale: Scale, runs: KeptRuns) -> None:
        """Keep the runs of an item."""


def build_plan(items: Mapping[str, Item], scales: Sequence[Scale] = SCALES, keeper: Keeper | None = None) -> Plan:
    """Expand all items at some scales, but for those whose runs the keeper has.

    Raises:
        UserError: an item file is wrong, or asks for a pair of attack and threat model that cannot be.
    """
    plan = Plan(items)
    for item in tracked(items.values(), len(items)):
        for scale in scales:
            if _runs_at(item, scale):
                known = keeper.find(item, scale) if keeper else None
                if known is None or not _taken(plan, item, scale, known):
                    _expand_into(plan, item, scale, keeper)
    return plan


def _taken(plan: Plan, item: Item, scale: Scale, known: KeptRuns) -> bool:
    """Whether the plan has got runs that are known; not where no catalog has their data, which is told with a place."""
    try:
        plan.take(known)
    except UserError:
        return False
    _show(plan, item, scale, known.runs)
    return True


def _show(plan: Plan, item: Item, scale: Scale, runs: list[PlannedRun]) -> None:
    if runs or not item.scales[scale].missing:
        plan.runs[scale, item.key] = runs


def _expand_into(plan: Plan, item: Item, scale: Scale, keeper: Keeper | None) -> None:
    runs = expand(item, scale)
    _show(plan, item, scale, runs)
    for run in runs:
        _add_checked(plan, item, run)
    if keeper:
        jobs = (KeptJob(job.spec, job.name, job.read_runs) for job in plan.jobs_of(scale, item)) if runs else ()
        keeper.note(item, scale, KeptRuns(runs, list(jobs)))


def set_up(items: Mapping[str, Item]) -> Plan:
    """Return a plan that knows which items run at which scales, as ``build_plan``, and nothing of their runs.

    Raises:
        UserError: an item file is wrong, of those for whose data is said why they cannot be had.
    """
    plan = Plan(items)
    for item in items.values():
        for scale in SCALES:
            if _runs_at(item, scale) and (not item.scales[scale].missing or expand(item, scale)):
                plan.runs[scale, item.key] = []
    return plan


def _runs_at(item: Item, scale: Scale) -> bool:
    return item.made and scale in item.scales and not item.scales[scale].planned


def _add_checked(plan: Plan, item: Item, run: PlannedRun) -> None:
    try:
        check_run(item, run)
        for spec in asked_for([run]):
            plan.add(spec)
    except UserError as error:
        raise UserError(f"config/items/{item.key}.yaml: runs.{run.block}: {error}") from None


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
