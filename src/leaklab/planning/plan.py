"""The plan: every run that the items of a scale need, with what each reads.

Snakemake owns the DAG; this is the list that its rules look things up in. It is rebuilt in every Snakemake process,
so nothing here imports torch.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from leaklab.data.catalog import Entry, find_entry, find_text, load_catalog
from leaklab.items.expand import PlannedRun, expand
from leaklab.items.items import Item
from leaklab.planning.checks import check_run
from leaklab.planning.code import code_of
from leaklab.records.config import SCALES, Scale
from leaklab.records.errors import UserError
from leaklab.records.progress import tracked
from leaklab.records.record import canonical_json
from leaklab.specs.base import RUNS, Spec, run_folder, run_id
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
        return run_folder(self.spec)

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
        job, name = Job(spec), run_id(spec)
        known = self.jobs.setdefault(spec.stage, {})
        if name in known:
            if known[name].spec != spec and known[name].text != job.text:  # equal ones are told apart much sooner
                raise UserError(f"two {spec.stage} runs share the id {name}: lengthen HASH_LENGTH in specs/base.py")
            return name
        reads = tuple((needed.stage, self.add(needed)) for needed in job.needs)
        # as if it had been asked: these are cached properties
        vars(job).update(name=name, folder=RUNS / spec.stage / name, read_runs=reads)
        if job.dataset and job.dataset not in self.datasets:
            self._find(job.dataset)
            self.datasets.add(job.dataset)
        known[name] = job
        return name

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


def build_plan(items: Mapping[str, Item], scales: Sequence[Scale] = SCALES) -> Plan:
    """Expand all items at some scales.

    Raises:
        UserError: an item file is wrong, or asks for a pair of attack and threat model that cannot be.
    """
    plan = Plan(items)
    for item in tracked(items.values(), len(items)):
        for scale in scales:
            if _runs_at(item, scale):
                runs = expand(item, scale)
                if not runs and item.scales[scale].missing:
                    continue
                plan.runs[scale, item.key] = runs
                for run in runs:
                    _add_checked(plan, item, run)
    return plan


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


# A plan that is complete, and so need find nothing twice: names of runs, the jobs of an item, the items that stayed.

Key = tuple[str, str]
"""Stage and id of a run."""


class KnownPlan(Plan):
    """A plan to which nothing is added any more."""

    @classmethod
    def of(cls, plan: Plan) -> "KnownPlan":
        """Return the same plan; its jobs are told their names, by which it has them."""
        found = cls(plan.items, plan.jobs, plan.datasets, plan.runs)
        for stage, jobs in plan.jobs.items():
            for name, job in jobs.items():
                # as if each had been asked: these are cached properties
                vars(job).update(name=name, folder=RUNS / stage / name)
        for job in (job for jobs in plan.jobs.values() for job in jobs.values()):
            if "read_runs" not in vars(job):
                vars(job)["read_runs"] = tuple(map(found.key_of, job.needs))
        return found

    def key_of(self, spec: Spec) -> Key:
        """Return stage and id of a run of this plan."""
        # by identity, as specs are not hashable; the plan holds them all, so no other can take the place of one
        known = self._keys.get(id(spec))
        return (spec.stage, run_id(spec)) if known is None else known

    def jobs_of(self, scale: Scale, item: Item) -> list[Job]:
        """Return every job that the item needs at this scale, each once, in the order of the road."""
        if (scale, item.key) not in self._jobs_of_items:
            found: dict[Key, Job] = {}
            for spec in asked_for(self.runs[scale, item.key]):
                self._keys[id(spec)] = self.key_of(spec)
                self._follow(self._keys[id(spec)], found)
            self._jobs_of_items[scale, item.key] = list(found.values())
        return self._jobs_of_items[scale, item.key]

    def with_items(self, items: Mapping[str, Item], scales: Sequence[Scale] = SCALES) -> "KnownPlan":
        """Return the plan of the same items, of which some have changed: only these are planned anew.

        Raises:
            UserError: see ``build_plan``.
        """
        found = Plan(items)
        for key, item in items.items():
            stayed = item is self.items.get(key)
            part = self if stayed else KnownPlan.of(build_plan({key: item}, scales))
            for scale in scales:
                if (scale, key) in part.runs:
                    found.runs[scale, key] = part.runs[scale, key]
                    _add(found, part.jobs_of(scale, item))
        return KnownPlan.of(found)

    def _follow(self, key: Key, found: dict[Key, Job]) -> None:
        if key not in found:
            job = self.job(*key)
            for needed in job.read_runs:
                self._follow(needed, found)
            found[key] = job

    @cached_property
    def _keys(self) -> dict[int, Key]:
        return {id(job.spec): (stage, name) for stage, jobs in self.jobs.items() for name, job in jobs.items()}

    @cached_property
    def _jobs_of_items(self) -> dict[tuple[Scale, str], list[Job]]:
        return {}


def _add(plan: Plan, jobs: Sequence[Job]) -> None:
    for job in jobs:
        plan.jobs.setdefault(job.spec.stage, {}).setdefault(job.name, job)
        plan.datasets.update(filter(None, [job.dataset]))
