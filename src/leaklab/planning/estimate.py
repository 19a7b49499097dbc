"""What some jobs are expected to cost, how much of that is still to be done, and where their data come from."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from leaklab.data.catalog import Entry, find_entry, find_text, load_catalog
from leaklab.planning.code import code_of
from leaklab.planning.code_lock import CodeLock
from leaklab.planning.devices import Device, runs_there
from leaklab.planning.disk import disk_mb
from leaklab.planning.memory import memory_mb
from leaklab.planning.pieces import Cut, shorter_trainings
from leaklab.planning.plan import Job, Plan
from leaklab.planning.resources import cost
from leaklab.records.files import read_json
from leaklab.specs.text import TEXT_FOLDER
from leaklab.specs.training import TrainSpec


@dataclass(frozen=True)
class Estimate:
    """Cost of some jobs.

    Attributes:
        jobs: their number.
        waiting: those without a record of the code here (or of code that it stands for), which would run.
        steps: client steps, of all jobs.
        evaluations: evaluations of a matching loss, of all jobs, at most.
        seconds: estimated CPU seconds of all jobs, at most.
        likely_seconds: of all jobs, on a GPU or not, as searches usually end.
        waiting_seconds: the same of those that would run.
        longest_seconds: of the longest of all jobs; of one that is cut (``pieces.py``), of its longest piece.
        memory_mb: that the largest of all jobs asks for.
        gpu_seconds: estimated seconds of all jobs that run on a GPU, at most; no CPU seconds are counted for them.
        pieces: of all jobs, where one that is not cut is one piece.
        disk_mb: that what they leave takes, roughly.
    """

    jobs: int
    waiting: int
    steps: int
    evaluations: int
    seconds: float
    waiting_seconds: float
    longest_seconds: float
    memory_mb: int
    gpu_seconds: float
    pieces: int
    disk_mb: float
    likely_seconds: float


def estimate(jobs: Iterable[Job], lock: CodeLock | None = None, device: Device | None = None) -> Estimate:
    """Add up the estimates of some jobs.

    Args:
        jobs: each once.
        lock: what the code here stands for.
        device: where training and attacks run; None for one processor thread as it is known here.

    Raises:
        UserError: the record of a run is damaged.
    """
    jobs = list(jobs)
    place, shares = device or Device(), shares_of(jobs)
    every = [(job, Cut.of(job, place), cost(job.spec), _waits(job, lock or CodeLock())) for job in jobs]
    seconds = {job.folder: cut.pieces * cut.seconds for job, cut, _, _ in every}
    likely = sum(place.factor(job.spec) * one.likely * shares.get(job.name, 1.0) for job, _, one, _ in every)
    on_gpu = {job.folder for job, _, _, _ in every if place.kind == "cuda" and runs_there(job.spec)}
    return Estimate(
        jobs=len(every),
        waiting=sum(waits for _, _, _, waits in every),
        steps=sum(one.steps for _, _, one, _ in every),
        evaluations=sum(one.evaluations for _, _, one, _ in every),
        seconds=sum(value for folder, value in seconds.items() if folder not in on_gpu),
        waiting_seconds=sum(seconds[job.folder] for job, _, _, waits in every if waits),
        longest_seconds=max((cut.seconds for _, cut, _, _ in every), default=0.0),
        memory_mb=max((memory_mb(job.spec) for job, _, _, _ in every), default=0),
        gpu_seconds=sum(value for folder, value in seconds.items() if folder in on_gpu),
        pieces=sum(cut.pieces for _, cut, _, _ in every),
        disk_mb=sum(disk_mb(job.spec) for job, _, _, _ in every),
        likely_seconds=likely,
    )


def shares_of(jobs: Sequence[Job]) -> dict[str, float]:
    """Return training -> its share of its rounds that no shorter one among the jobs has done before.

    What the jobs of a plan take at most has all rounds: a shorter training may be made later, or elsewhere.
    """
    found = ((job, job.spec) for job in jobs)
    trainings = {job.name: (job, spec) for job, spec in found if isinstance(spec, TrainSpec)}
    before = shorter_trainings(Plan({}, {TrainSpec.stage: {name: job for name, (job, _) in trainings.items()}}))
    return {
        name: 1 - before[name].rounds_done / spec.rounds_done for name, (_, spec) in trainings.items() if name in before
    }


def cpu_seconds(jobs: Iterable[Job]) -> float:
    """Return the estimated seconds of some jobs on one processor thread, each job once, at most."""
    place = Device()
    return sum({job.folder: place.seconds(job.spec) for job in jobs}.values())


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
    entry = find_entry(name, _catalog()) if name == dataset else find_text(name)
    if entry.embedded:
        return "comes with the installed packages"
    if entry.own:
        return "prepared from a file of yours"
    if not entry.official:
        return "comes from LEAKLAB_MIRROR only"
    return "fetched from LEAKLAB_MIRROR or the network"


@cache
def _catalog() -> dict[str, Entry]:
    return load_catalog()


def _waits(job: Job, lock: CodeLock) -> bool:
    """Return whether Snakemake would run the job: it has no record, or one of code that the code here is not."""
    record = job.folder / "run.json"
    if not record.is_file():
        return True
    content = read_json(record)
    made_by = content.get("code") if isinstance(content, dict) else None
    if not isinstance(made_by, str) or made_by == job.code:
        return made_by != job.code
    return not lock.accepts(code_of(job.spec).key, made_by, job.code)
