# What all rules need: the plan, and how they look things up in it. No torch, no pandas: every job's process parses this
# file again.
import functools
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

from leaklab.items.items import item_file, load_items, load_papers, paper_file
from leaklab.planning import result_lookups
from leaklab.planning.call import (
    Call,
    free_lock_of_killed_call,
    make_folders_of_scales,
    note_call,
    prepare,
    refuse_closed_folders,
)
from leaklab.planning.code import kept_digests
from leaklab.planning.code_lock import CodeLock
from leaklab.planning.devices import RESULT, configured_device
from leaklab.planning.gpus import (
    Asked,
    device_of,
    place_of_call,
    place_of_job,
    refuse_missing_gpu,
)
from leaklab.planning.job_words import JobWords
from leaklab.planning.lookups import START, Runs, files, step
from leaklab.planning.names import PAPER
from leaklab.planning.own_items import items_of_call
from leaklab.planning.piece_lookups import Pieces
from leaklab.planning.result_lookups import (
    Results,
    dataset_entry,
    dataset_spec,
    memory_of_dataset,
    scale_spec,
    text_entry,
)
from leaklab.planning.room import refuse_unfit_folder
from leaklab.planning.snakemake_patches import (
    bring_to_now,
    drop_default_limit,
    patch_every_process,
    patch_main_process,
)
from leaklab.planning.slurm_patches import choose_status_command, name_jobs
from leaklab.planning.telling import (
    give_words,
    lines_of_failures,
    tells_failures,
    without_commit,
)
from leaklab.records.config import SCALES, Config
from leaklab.records.config import parse as parse_config
from leaklab.records.errors import UserError
from leaklab.records.git import unknown_commit
from leaklab.records.os_errors import line_of
from leaklab.records.text_numbers import hinted
from leaklab.specs.base import RUNS
from leaklab import fork_server


def say(line):
    """Tell the user something, once in a call."""
    if line:
        print(f"leaklab: {line}", file=sys.stderr, flush=True)


def say_at_the_end(line):
    """Tell the user something behind all that is told of jobs, which a thread of Snakemake's shows."""
    logger.info(f"leaklab: {line}")


patch_every_process()
try:
    if workflow.is_main_process:
        refuse_unfit_folder(Path.cwd())
    given = " and --config" if workflow.config_settings.overwrite_config else ""
    CONFIG = parse_config(Config, config, f"config/config.yaml{given}")
    prepare(CONFIG)
    PLANNED = items_of_call(workflow.is_main_process, sys.argv[1:])
    CALL = Call(PLANNED, CONFIG.scale, workflow.is_main_process, sys.argv[1:])
    CODE_LOCK = CodeLock.load()
    if workflow.is_main_process:
        patch_main_process()
        say(free_lock_of_killed_call())
        note_call()  # here, as Snakemake locks the folder before it calls onstart
        say(bring_to_now())
        say(without_commit(unknown_commit()))
except UserError as error:
    raise WorkflowError(f"leaklab: {hinted(str(error))}") from None
except OSError as error:
    raise WorkflowError(f"leaklab: {line_of(error)}") from None
if workflow.is_main_process:
    ASKED = Asked.of(sys.argv[1:])
    PLACE = place_of_call(CONFIG.device, ASKED)
    say(PLACE.line)
    # a first call has many jobs, and plans them while libraries are imported
    if ASKED.executor == "local" and not ASKED.dry and not RUNS.exists():
        fork_server.start(fork_server.LEAST_JOBS)
else:
    PLACE = place_of_job(CONFIG.device)
ON_DEVICE = PLACE.resources
TEMPLATES = sorted(
    str(path) for path in Path("src/leaklab/report/site/templates").iterdir()
)
ITEM_FILES = [str(item_file(item)) for item in load_items().values()]
PAPER_FILES = [str(paper_file(key)) for key in load_papers()]
SCOREBOARD_FILES = sorted(
    str(path) for path in Path("results/scoreboard").glob("*.json")
)
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
        raise WorkflowError(f"leaklab: {hinted(str(error))}") from None
    if workflow.is_main_process:
        say(CALL.opening_line(plan, configured_device(PLACE.device)))
    return plan


runs = Runs(the_plan, PLACE.device, CODE_LOCK, CONFIG.device)
pieces = Pieces(runs)
results = Results(runs, lambda: workflow.dag_settings.allowed_rules)


@functools.cache
def job_words():
    """Return what tells the jobs of this call in words."""
    from leaklab.report.judge.terms import name_in_words

    return JobWords(
        the_plan().job,
        lambda stage, run: runs.cut(stage, run).pieces,
        CALL.items_of_runs(the_plan()),
        configured_device(PLACE.device),
        name_in_words,
    )


def name_of_job(job):
    """Return a name in words for a job of Snakemake's, without spaces."""
    return job_words().of(job.rule.name, dict(job.wildcards_dict)).name
