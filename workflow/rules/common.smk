# Helpers of all rules: look things up in the plan. No torch, no pandas: every job's process parses this file again.
import functools
import sys
import time
from pathlib import Path

from snakemake.exceptions import WorkflowError

from leaklab.data.catalog import find_entry, load_catalog
from leaklab.data.text.catalog import find_text
from leaklab.planning.call import Call
from leaklab.planning.beginning import (
    free_lock_of_killed_call,
    note_call,
    prepare,
    refuse_closed_folders,
)
from leaklab.planning.kept_digests import kept_digests
from leaklab.planning.code import code_of, code_of_result
from leaklab.planning.code_lock import CodeLock
from leaklab.planning.devices import configured_device
from leaklab.planning.lookups import of_run, signed
from leaklab.planning.pieces import Cut
from leaklab.planning.plan import PREPARED
from leaklab.planning.ranks import RESULT, Ranks
from leaklab.planning.resources import memory_mb
from leaklab.planning.snakemake_patches import (
    bring_to_now,
    choose_status_command,
    drop_default_limit,
    patch_every_process,
    patch_main_process,
)
from leaklab.planning.working_gpu import device_of, refuse_missing_gpu
from leaklab.records.canonical import canonical_json
from leaklab.records.config import SCALES, Config
from leaklab.records.config import parse as parse_config
from leaklab.records.errors import UserError
from leaklab.records.ids import RUNS
from leaklab.records.items import item_file, load_items
from leaklab.records.observed import OBSERVED, observation_folder
from leaklab.records.papers import load_papers, paper_file


def say(line):
    """Tell the user something, once in a call."""
    if line:
        print(f"leaklab: {line}", file=sys.stderr, flush=True)


patch_every_process()
try:
    CONFIG = parse_config(Config, config, "config/config.yaml")
    prepare(CONFIG)
    CALL = Call(load_items(), CONFIG.scale, workflow.is_main_process, sys.argv[1:])
    CODE_LOCK = CodeLock.load()
except UserError as error:
    raise WorkflowError(f"leaklab: {error}") from None

if workflow.is_main_process:
    patch_main_process()
    say(free_lock_of_killed_call())
    note_call()  # here, as Snakemake locks the folder before it calls onstart
    say(bring_to_now())
STARTED = time.time()
DEVICE = CONFIG.device
GPUS = 1 if DEVICE == "cuda" else 0
TEMPLATES = sorted(
    str(path) for path in Path("src/leaklab/report/site/templates").iterdir()
)
ITEM_FILES = [str(item_file(item)) for item in CALL.items.values()]
PAPER_FILES = [str(paper_file(key)) for key in load_papers()]
PAGES = [f"{key}.html" for key in load_papers()]


wildcard_constraints:
    scale="|".join(SCALES),
    paper="[a-z0-9-]+",
    item="[a-z0-9-]+",
    run="[a-z0-9-]+",
    piece=r"\d+",
    left=r"\d+",
    dataset="[a-z0-9-]+",


@functools.cache
def the_plan():
    """Return the plan of this call, which is told what the user asked for once all files are read."""
    try:
        plan = CALL.plan(workflow.dag_settings.targets)
    except UserError as error:
        raise WorkflowError(f"leaklab: {error}") from None
    if workflow.is_main_process:
        say(CALL.opening_line(plan, configured_device(DEVICE)))
    return plan


def job_of(stage):
    """Return a function from wildcards to the planned job of a stage."""

    def find(wildcards):
        if wildcards.run not in the_plan().jobs.get(stage, {}):
            raise WorkflowError(
                f"leaklab: no item asks for {stage} run {wildcards.run}"
            )
        return the_plan().job(stage, wildcards.run)

    return find


def spec_of(stage):
    find = job_of(stage)

    @of_run
    def spec(wildcards):
        return find(wildcards).told

    return spec


def generation_of_run(stage):
    """Return a function from wildcards to the code that Snakemake compares with that of the last run."""
    find = job_of(stage)

    @of_run
    def generation(wildcards):
        return CODE_LOCK.generation_of(code_of(find(wildcards).spec))

    return generation


def code_of_run(stage):
    """Return a function to the digest that the step records; as it asks for outputs, Snakemake does not compare it."""
    find = job_of(stage)

    @signed
    def code(wildcards, output):
        return find(wildcards).code

    return code


def result_code(rule, wildcards):
    """Return the code of a step that no run is of."""
    asked = [getattr(wildcards, key, "") for key in ("paper", "item", "scale")]
    dealt = rule == "draw_partition" and job_of("partition")(wildcards).spec.partition
    return code_of_result(rule, *asked, partition=dealt.name if dealt else "")


def generation_of_rule(rule):
    """Return what ``generation_of_run`` does, for a step that no run is of."""

    @signed
    def generation(wildcards):
        return CODE_LOCK.generation_of(result_code(rule, wildcards))

    return generation


def code_of_rule(rule):
    """Return what ``code_of_run`` does, for a step that no run is of."""

    @signed
    def code(wildcards, output):
        return result_code(rule, wildcards).digest

    return code


def dataset_of(stage, suffix):
    find = job_of(stage)

    @of_run
    def prepared(wildcards):
        return str(PREPARED / f"{find(wildcards).dataset}{suffix}")

    return prepared


def files_needed(job, of_stage, name):
    """Return file `name` of each run of `of_stage` that a job reads."""
    return [
        str(RUNS / stage / run / name)
        for stage, run in job.read_runs
        if stage == of_stage
    ]


def needed(stage, of_stage, name):
    """Return a function from wildcards to file `name` of the run of `of_stage` that a run of `stage` reads."""
    find = job_of(stage)

    @of_run
    def path(wildcards):
        (file,) = files_needed(find(wildcards), of_stage, name)
        return file

    return path


def observed(stage, name):
    """Return a function from wildcards to file `name` of the observation that a run of `stage` reads."""
    find = job_of(stage)

    @of_run
    def path(wildcards):
        runs = [
            (OBSERVED[of], run)
            for of, run in find(wildcards).read_runs
            if of in OBSERVED
        ]
        ((folder, run),) = runs
        return str(RUNS / folder / run / name)

    return path


def if_needed(stage, of_stage, name):
    """Return a function from wildcards to file `name` of the run of `of_stage` that a run of `stage` reads, if any."""
    find = job_of(stage)

    @of_run
    def path(wildcards):
        return files_needed(find(wildcards), of_stage, name)

    return path


def of_read_update(name):
    """Return a function from wildcards to file `name` of the capture behind a score, if one of its metrics reads it."""
    find = job_of("score")

    @of_run
    def path(wildcards):
        spec = find(wildcards).spec
        read = [spec.attack.capture] if spec.reads_the_update else []
        return [str(observation_folder(capture) / name) for capture in read]

    return path


def memory_of(stage):
    find = job_of(stage)

    @signed
    def memory(wildcards, attempt):
        return attempt * memory_mb(find(wildcards).spec)

    return memory


@functools.cache
def cut_of(stage, run):
    """Return into how many pieces a run is cut, and the minutes that each and what is left after them ask for."""
    return Cut.of(the_plan().job(stage, run), configured_device(DEVICE))


def runtime_of(stage):
    @signed
    def runtime(wildcards, attempt):
        return attempt * cut_of(stage, wildcards.run).minutes_of_rest

    return runtime


@functools.cache
def the_ranks():
    return Ranks(the_plan(), configured_device(DEVICE))


def rank_of(stage):
    """Return a function from wildcards to the priority of a run."""

    @signed
    def rank(wildcards):
        job_of(stage)(wildcards)
        return the_ranks().of(stage, wildcards.run)

    return rank


def rank_of_dataset(folder):
    """Return a function from wildcards to the priority of a data set below a folder of the prepared ones."""

    def rank(wildcards):
        return the_ranks().of_dataset(f"{folder}{wildcards.dataset}")

    return rank


def dataset_entry(wildcards):
    return canonical_json(find_entry(wildcards.dataset, load_catalog()))


def text_entry(wildcards):
    return canonical_json(find_text(wildcards.dataset))
