"""What the rules of data sets, and those of tables, figures and reports look up: by data set, paper, item and scale."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from snakemake.exceptions import WorkflowError

from leaklab.data.catalog import find_entry, find_text, load_catalog
from leaklab.items.expand import block_stage
from leaklab.items.items import Item, item_file
from leaklab.planning.code import Code, code_of_own_result, code_of_result
from leaklab.planning.known_plan import KnownPlan
from leaklab.planning.lookups import Lookup, Runs, signed
from leaklab.planning.outputs import drawings_of_deals, jobs_behind, records_behind, state_of, targets_of_scale
from leaklab.planning.own_items import file_of, is_own
from leaklab.planning.plan import PREPARED, Job, Plan, result_files
from leaklab.records.config import Scale
from leaklab.records.record import canonical_json
from leaklab.specs.base import RUNS

WITH_CARDS = ("score", "landscape", "score-text")


def scale_spec(wildcards: Any) -> str:
    """Return what a step is told that is of a scale."""
    return canonical_json({"scale": wildcards.scale})


def dataset_entry(wildcards: Any) -> str:
    """Return the catalog's entry of a data set."""
    return canonical_json(find_entry(wildcards.dataset, load_catalog()))


def text_entry(wildcards: Any) -> str:
    """Return the catalog's entry of a text."""
    return canonical_json(find_text(wildcards.dataset))


def memory_of_dataset(wildcards: Any) -> int:
    """Return MB to prepare a data set in: three times the images of ImageNet at the sides that the catalog asks for."""
    return 60000 if wildcards.dataset.startswith("imagenet") else 2000


@signed
def dataset_spec(wildcards: Any, output: Any) -> str:
    """Return what a step is told that makes a data set; Snakemake compares the catalog's entry instead."""
    return json.dumps({"dataset": wildcards.dataset})


class Results:
    """The results of a plan: of items, of scales, and the code of steps that no run is of."""

    def __init__(self, runs: Runs, allowed_rules: Callable[[], Any]) -> None:
        """Look up results.

        Args:
            runs: those that they rest on.
            allowed_rules: returns the rules that a call may run, none if all; not to be called before all are read.
        """
        self._runs, self._allowed_rules = runs, allowed_rules

    @property
    def _plan(self) -> Plan:
        return self._runs.plan()

    def generation_of(self, rule: str) -> Lookup:
        """Look up what ``Runs.generation_of`` does, for a step that no run is of."""
        return signed(lambda wildcards: self._runs.lock.generation_of(self._code(rule, wildcards)))

    def code_of(self, rule: str) -> Lookup:
        """Look up what ``Runs.code_of`` does, for a step that no run is of."""
        return signed(lambda wildcards, output: self._code(rule, wildcards).digest)

    def _code(self, rule: str, wildcards: Any) -> Code:
        paper, item, scale = (getattr(wildcards, key, "") for key in ("paper", "item", "scale"))
        known = self._plan.items.get(f"{paper}/{item}")
        if known is not None and is_own(known):
            return code_of_own_result(rule, file_of(known), scale)
        spec: Any = self._runs.job("partition", wildcards).spec if rule == "draw_partition" else None
        return code_of_result(rule, paper, item, scale, partition=spec.partition.name if spec else "")

    def item(self, wildcards: Any) -> Item:
        """Return an item that can be made at a scale.

        Raises:
            WorkflowError: it cannot; says why.
        """
        key = f"{wildcards.paper}/{wildcards.item}"
        item = self._plan.items.get(key)
        if item is not None and (wildcards.scale, key) in self._plan.runs:
            return item
        reason = state_of(self._plan, item, wildcards.scale).reason if item else "there is no such item"
        raise WorkflowError(f"leaklab: cannot make {key} at scale {wildcards.scale}: {reason}")

    def item_yaml(self, wildcards: Any) -> str:
        """Return the file that defines an item."""
        item = self.item(wildcards)
        return str(file_of(item) if is_own(item) else item_file(item))

    def item_spec(self, wildcards: Any) -> str:
        """Return what the steps of an item are told."""
        missing = self.item(wildcards).scales[wildcards.scale].missing
        told = {"paper": wildcards.paper, "item": wildcards.item, "scale": wildcards.scale}
        return canonical_json(told | ({"missing": missing} if missing else {}))

    def labels(self, what: str) -> Lookup:
        """Look up what stands beside a file of an item in the report of Snakemake."""
        return lambda wildcards: {"what": what, "title": self.item(wildcards).title}

    def of_item(self, files: Callable[[Any, Scale, Item], list[str]]) -> Lookup:
        """Look up the files that a function of plan, scale and item names (``planning/result_lookups.py``)."""
        return signed(lambda wildcards: files(self._plan, wildcards.scale, self.item(wildcards)))

    def report_spec(self, wildcards: Any) -> str:
        """Return what a step is told that shows a scale: which data are missing for which items, too."""
        scale = wildcards.scale
        shown = {key: item for key, item in self._plan.items.items() if scale in item.scales and not is_own(item)}
        changes = {key: item.scales[scale] for key, item in shown.items()}
        missing = {key: change.missing for key, change in changes.items() if change.missing}
        return canonical_json({"scale": scale, **({"missing": missing} if missing else {})})

    def of_ready_items(self, name: str) -> Lookup:
        """Look up the named result files of all items that run at a scale."""

        def paths(wildcards: Any) -> list[str]:
            return [str(result_files(item, wildcards.scale)[name]) for item in self._plan.ready(wildcards.scale)]

        return signed(paths)

    def _jobs(self, scale: Scale) -> list[Job]:
        return jobs_behind(self._plan, scale, self._plan.ready(scale))

    def records(self, wildcards: Any) -> list[str]:
        """Return the run records of everything that a scale's items rest on."""
        items = self._plan.ready(wildcards.scale)
        return [str(path) for path in records_behind(self._plan, wildcards.scale, items)]

    def deals(self, wildcards: Any) -> list[str]:
        """Return one drawing of each kind of deal that a scale's items rest on."""
        return [str(path) for path in drawings_of_deals(self._jobs(wildcards.scale))]

    def cards(self, wildcards: Any) -> list[str]:
        """Return the cards of the metrics behind a scale's items."""
        return [str(job.folder / "cards.json") for job in self._jobs(wildcards.scale) if job.spec.stage in WITH_CARDS]

    def here(self, paths_of: Callable[[Any], list[str]]) -> Lookup:
        """Look up those files that are here, where a call may not make all (``make publish``)."""

        def paths(wildcards: Any) -> list[str]:
            every = paths_of(wildcards)
            return [path for path in every if Path(path).is_file()] if self._allowed_rules() else every

        return signed(paths)

    def targets_of(self, scale: Scale) -> Lookup:
        """Look up what a scale's target asks for."""
        return signed(lambda wildcards: [str(path) for path in targets_of_scale(self._plan, scale)])


# Which files of runs and data sets an item's table and figure are made of, as the plan has it.

FIGURES_OF_RUNS = ("image-grid", "defense-grid", "sentences")
"""Renderers that show what runs left: pictures, sentences. The others draw the numbers of the table alone."""
OF_SCORES = (("score", ("scores.csv", "cards.json")), ("landscape", ("landscape.csv", "cards.json")),
             ("score-text", ("scores.csv", "cards.json")))  # fmt: skip
OF_PICTURES = {
    "score-text": ["texts.json"],
    "attack": ["reconstruction.safetensors"],
    "capture": ["truth.safetensors", "truth_facts.json"],
}


def run_files(plan: KnownPlan, scale: Scale, item: Item, stage: str, name: str) -> list[str]:
    """Return file ``name`` of all runs of a stage that the item reads directly, each once."""
    runs = (run for run in plan.runs[scale, item.key] if block_stage(run) == stage)
    return list(dict.fromkeys(str(RUNS.joinpath(*plan.key_of(run.spec), name)) for run in runs if run.spec))


def sweeps(plan: KnownPlan, scale: Scale, item: Item) -> list[str]:
    """Return the curves of the item's trainings, and their weights where those are embedded."""
    kept = ["weights.safetensors"] if item.cells and item.cells.embedding else []
    return [file for name in ("sweep.parquet", *kept) for file in run_files(plan, scale, item, "train", name)]


def scores(plan: KnownPlan, scale: Scale, item: Item) -> list[str]:
    """Return the scores of the item's attacks, on images, on text and along landscapes."""
    return [file for stage, names in OF_SCORES for name in names for file in run_files(plan, scale, item, stage, name)]


def checks(plan: KnownPlan, scale: Scale, item: Item) -> list[str]:
    """Return the numbers of the item's checks."""
    return run_files(plan, scale, item, "check", "numbers.csv")


def cards(plan: KnownPlan, scale: Scale, item: Item) -> list[str]:
    """Return the cards of the data sets behind the item."""
    datasets = {job.dataset for job in plan.jobs_of(scale, item) if job.dataset}
    return [str(PREPARED / f"{dataset}.json") for dataset in sorted(datasets)]


def pictures(plan: KnownPlan, scale: Scale, item: Item) -> list[str]:
    """Return reconstructions and truths of the item's attacks, where its figure shows any; data of whole batches."""
    if item.renderer not in FIGURES_OF_RUNS:
        return []
    jobs = plan.jobs_of(scale, item)
    shown = [str(job.folder / name) for job in jobs for name in OF_PICTURES.get(job.spec.stage, [])]
    if item.pictures is None or not item.pictures.batches:
        return shown
    datasets = sorted({job.dataset for job in jobs if job.spec.stage == "capture" and job.dataset})
    return [*shown, *(str(PREPARED / f"{name}.{kind}") for name in datasets for kind in ("safetensors", "json"))]


def table_files(plan: KnownPlan, scale: Scale, item: Item) -> list[Path]:
    """Return all of these that its table is made of."""
    return [Path(file) for find in (sweeps, scores, checks, cards) for file in find(plan, scale, item)]
