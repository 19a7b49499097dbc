"""What some jobs are expected to cost, how much of that is still to be done, and where their data come from."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from leaklab.data.catalog import find_entry, load_catalog
from leaklab.data.text.catalog import find_text
from leaklab.planning.adopted import Adopted
from leaklab.planning.code import RULE_OF_STAGE, modules_of
from leaklab.planning.plan import Job
from leaklab.planning.resources import cost, memory_mb
from leaklab.records.files import read_json
from leaklab.records.ids import stage_of
from leaklab.records.text_specs import TEXT_FOLDER


@dataclass(frozen=True)
class Estimate:
    """Cost of some jobs.

    Attributes:
        jobs: their number.
        waiting: those without a record of the code here (or of code that it stands for), which would run.
        steps: client steps, of all jobs.
        evaluations: evaluations of a matching loss, of all jobs, at most.
        seconds: estimated CPU seconds of all jobs, at most.
        waiting_seconds: the same of those that would run.
        longest_seconds: of the longest of all jobs.
        memory_mb: that the largest of all jobs asks for.
    """

    jobs: int
    waiting: int
    steps: int
    evaluations: int
    seconds: float
    waiting_seconds: float
    longest_seconds: float
    memory_mb: int


def estimate(jobs: Iterable[Job], adopted: Adopted | None = None) -> Estimate:
    """Add up the estimates of some jobs.

    Args:
        jobs: each once.
        adopted: what the code here stands for.

    Raises:
        UserError: the record of a run is damaged.
    """
    every = list(jobs)
    costs = [(cost(job.spec), _waits(job, adopted or Adopted())) for job in every]
    return Estimate(
        jobs=len(costs),
        waiting=sum(waits for _, waits in costs),
        steps=sum(one.steps for one, _ in costs),
        evaluations=sum(one.evaluations for one, _ in costs),
        seconds=sum(one.seconds for one, _ in costs),
        waiting_seconds=sum(one.seconds for one, waits in costs if waits),
        longest_seconds=max((one.seconds for one, _ in costs), default=0.0),
        memory_mb=max((memory_mb(job.spec) for job in every), default=0),
    )


def datasets_of(jobs: Iterable[Job]) -> tuple[str, ...]:
    """Return the data sets that some jobs read, each once; those of sentences below ``text/``."""
    return tuple(sorted({job.dataset for job in jobs if job.dataset}))


@cache
def source_of(dataset: str) -> str:
    """Return where a data set comes from, e.g. ``fetched from LEAKLAB_MIRROR or the network``.

    Raises:
        UserError: no catalog has it, or a catalog is wrong.
    """
    name = dataset.removeprefix(TEXT_FOLDER)
    entry = find_entry(name, load_catalog()) if name == dataset else find_text(name)
    if entry.embedded:
        return "comes with the installed packages"
    if not entry.official:
        return "comes from LEAKLAB_MIRROR only"
    return "fetched from LEAKLAB_MIRROR or the network"


def _waits(job: Job, adopted: Adopted) -> bool:
    """Return whether Snakemake would run the job: it has no record, or one of code that the code here is not."""
    record = job.folder / "run.json"
    if not record.is_file():
        return True
    content = read_json(record)
    made_by = content.get("code") if isinstance(content, dict) else None
    if made_by == job.code:
        return False
    return made_by not in adopted.same(RULE_OF_STAGE[stage_of(job.spec)], modules_of(job.spec), job.code)
