# Helpers of all rules: look things up in the plan. No torch, no pandas: every job's process parses this file again.
import sys
import time
from pathlib import Path

from snakemake.exceptions import WorkflowError

from leaklab.data.catalog import find_entry, load_catalog
from leaklab.data.text.catalog import find_text
from leaklab.planning.adopted import Adopted
from leaklab.planning.environment import prepare
from leaklab.planning.plan import PREPARED, build_plan, result_files
from leaklab.planning.resources import memory_mb, minutes
from leaklab.planning.state import state_of
from leaklab.records.canonical import canonical_json
from leaklab.records.config import SCALES, Config
from leaklab.records.config import parse as parse_config
from leaklab.records.errors import UserError
from leaklab.records.expand import block_stage
from leaklab.records.ids import run_folder, stage_of
from leaklab.records.items import find_item, item_file, load_items

try:
    CONFIG = parse_config(Config, config, "config/config.yaml")
    PLAN = build_plan(load_items())
    ADOPTED = Adopted.load()
except UserError as error:
    raise WorkflowError(f"leaklab: {error}") from None

prepare(CONFIG)
STARTED = time.time()
DEVICE = CONFIG.device
GPUS = 1 if DEVICE == "cuda" else 0
TEMPLATES = sorted(str(path) for path in Path("src/leaklab/report/templates").iterdir())
ITEM_FILES = [str(item_file(item)) for item in PLAN.items.values()]


wildcard_constraints:
    scale="|".join(SCALES),
    paper="[a-z]+",
    item="[a-z0-9-]+",
    run="[a-z0-9-]+",
    dataset="[a-z0-9-]+",


def job_of(stage):
    """Return a function from wildcards to the planned job of a stage."""

    def find(wildcards):
        if wildcards.run not in PLAN.jobs.get(stage, {}):
            raise WorkflowError(
                f"leaklab: no item asks for {stage} run {wildcards.run}"
            )
        return PLAN.job(stage, wildcards.run)

    return find


def spec_of(stage):
    find = job_of(stage)

    def spec(wildcards):
        return find(wildcards).text

    return spec


def code_of_run(stage):
    find = job_of(stage)

    def code(wildcards):
        return ADOPTED.code_of(find(wildcards).spec)

    return code


def code_of_rule(rule):
    """Return the digest of a step without plug-ins; Snakemake would make plain text of anything but a function."""

    def code(wildcards):
        return ADOPTED.code_of_rule(rule)

    return code


def dataset_of(stage, suffix):
    find = job_of(stage)

    def prepared(wildcards):
        return str(PREPARED / f"{find(wildcards).dataset}{suffix}")

    return prepared


def needed(stage, of_stage, name):
    """Return a function from wildcards to file `name` of the run of `of_stage` that a run of `stage` reads."""
    find = job_of(stage)

    def path(wildcards):
        (spec,) = [spec for spec in find(wildcards).needs if stage_of(spec) == of_stage]
        return str(run_folder(spec) / name)

    return path


def generator_of_attack(name):
    """Return a function from wildcards to file `name` of the attack's generator, if it has one."""

    def path(wildcards):
        needs = job_of("attack")(wildcards).needs
        return [
            str(run_folder(spec) / name)
            for spec in needs
            if stage_of(spec) == "generator"
        ]

    return path


def deal_of_check(wildcards):
    """Return the deal that a check is told about, if any."""
    deals = job_of("check")(wildcards).needs
    return [str(run_folder(deal) / "partition.json") for deal in deals]


def memory_of(stage):
    find = job_of(stage)

    def memory(wildcards, attempt):
        return attempt * memory_mb(find(wildcards).spec)

    return memory


def runtime_of(stage):
    find = job_of(stage)

    def runtime(wildcards, attempt):
        return attempt * minutes(find(wildcards).spec)

    return runtime


def dataset_entry(wildcards):
    return canonical_json(find_entry(wildcards.dataset, load_catalog()))


def text_entry(wildcards):
    return canonical_json(find_text(wildcards.dataset))


def item_of(wildcards):
    key = f"{wildcards.paper}/{wildcards.item}"
    if (wildcards.scale, key) not in PLAN.runs:
        item = PLAN.items.get(key)
        reason = (
            "there is no such item"
            if item is None
            else state_of(PLAN, item, wildcards.scale).reason
        )
        raise WorkflowError(
            f"leaklab: cannot make {key} at scale {wildcards.scale}: {reason}"
        )
    return PLAN.items[key]


def run_files_of(wildcards, stage, name):
    """Return file `name` of all runs of `stage` that the item reads directly, each once."""
    runs = PLAN.runs[wildcards.scale, item_of(wildcards).key]
    return list(
        dict.fromkeys(
            str(run_folder(run.spec) / name)
            for run in runs
            if block_stage(run) == stage
        )
    )


def item_sweeps(wildcards):
    return run_files_of(wildcards, "train", "sweep.parquet")


def item_scores(wildcards):
    return [
        file
        for stage, names in (
            ("score", ("scores.csv", "cards.json")),
            ("landscape", ("landscape.csv", "cards.json")),
            ("score-text", ("scores.csv",)),
        )
        for name in names
        for file in run_files_of(wildcards, stage, name)
    ]


def item_checks(wildcards):
    return run_files_of(wildcards, "check", "numbers.csv")


def item_cards(wildcards):
    """Return the cards of the data sets behind the item."""
    jobs = PLAN.jobs_of(wildcards.scale, item_of(wildcards))
    return [
        str(PREPARED / f"{dataset}.json")
        for dataset in sorted({job.dataset for job in jobs if job.dataset})
    ]


def item_pictures(wildcards):
    """Return reconstructions and truths of the item's attacks, for figures of pictures."""
    jobs = PLAN.jobs_of(wildcards.scale, item_of(wildcards))
    names = {
        "score-text": ["texts.json"],
        "attack": ["reconstruction.safetensors"],
        "capture": ["truth.safetensors", "truth_facts.json"],
    }
    return [
        str(job.folder / name)
        for job in jobs
        for name in names.get(stage_of(job.spec), [])
    ]


def item_yaml(wildcards):
    return str(item_file(item_of(wildcards)))


def item_spec(wildcards):
    return canonical_json(
        {"paper": wildcards.paper, "item": wildcards.item, "scale": wildcards.scale}
    )
