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
from leaklab.planning.checks import check_run
from leaklab.planning.code import code_of
from leaklab.records.canonical import canonical_json
from leaklab.records.config import SCALES, Scale
from leaklab.records.errors import UserError
from leaklab.records.expand import PlannedRun, expand
from leaklab.records.ids import run_folder, run_id
from leaklab.records.items import Item
from leaklab.records.specs import Spec
from leaklab.records.text_specs import TEXT_FOLDER

PREPARED = Path("data/prepared")


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

    @property
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
                self._collect(run.spec.stage, run_id(run.spec), found)
        return list(found.values())

    def _collect(self, stage: str, name: str, found: dict[str, Job]) -> None:
        job = self.jobs[stage][name]
        for needed in job.read_runs:
            self._collect(*needed, found)
        found[f"{stage}/{name}"] = job

    def add(self, spec: Spec) -> None:
        """Add a run and all that it needs."""
        job, name = Job(spec), run_id(spec)
        known = self.jobs.setdefault(spec.stage, {})
        if name in known:
            if known[name].text != job.text:
                raise UserError(f"two {spec.stage} runs share the id {name}: lengthen HASH_LENGTH in records/ids.py")
            return
        for needed in job.needs:
            self.add(needed)
        if job.dataset and job.dataset not in self.datasets:
            self._find(job.dataset)
            self.datasets.add(job.dataset)
        known[name] = job

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
        check_run(item, run)
        if run.spec is not None:
            plan.add(run.spec)
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
