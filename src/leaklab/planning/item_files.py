"""Which files of runs and data sets an item's table and figure are made of, as the plan has it."""

from pathlib import Path

from leaklab.planning.known_plan import KnownPlan
from leaklab.planning.plan import PREPARED
from leaklab.records.config import Scale
from leaklab.records.expand import block_stage
from leaklab.records.ids import RUNS, stage_of
from leaklab.records.items import Item

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
    """Return reconstructions and truths of the item's attacks, where its figure shows any."""
    if item.renderer not in FIGURES_OF_RUNS:
        return []
    jobs = plan.jobs_of(scale, item)
    return [str(job.folder / name) for job in jobs for name in OF_PICTURES.get(stage_of(job.spec), [])]


def table_files(plan: KnownPlan, scale: Scale, item: Item) -> list[Path]:
    """Return all of these that its table is made of."""
    return [Path(file) for find in (sweeps, scores, checks, cards) for file in find(plan, scale, item)]
