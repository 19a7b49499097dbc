"""One trial: harm some jobs, run the plain command, and hold what is there against the undisturbed reference."""

import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chaos.calls import Calls, Said
from chaos.jobs import Job
from leaklab.records.files import sha256

State = dict[str, tuple[int, int]]
"""Path -> time of the last change, 0 where it lies in the future, and number of the file."""


LONGEST = 200
"""Characters of a traceback's last line that are kept: without it nobody can say later where it came from."""


@dataclass(frozen=True)
class Fault:
    """One fault that hit, and what came of it.

    Attributes:
        kind: such as ``kill``.
        stage: of the job that it hit.
        what: in words.
        seconds: of wall time, of the call that was disturbed and the plain one after it; a share where one call
            met several faults.
        survived: whether the plain command ended with 0 and every file had the bytes of the reference.
        lost: files of finished jobs that were made again for nothing.
        wrong: files with other bytes than the reference.
        tracebacks: of Python, in what both calls and their steps wrote.
        interrupts: tracebacks that are Python's answer to SIGINT, counted apart.
        reason: why it did not survive.
    """

    kind: str
    stage: str
    what: str
    seconds: float
    survived: bool
    lost: int = 0
    wrong: int = 0
    tracebacks: int = 0
    interrupts: int = 0
    reason: str = ""


@dataclass
class Harm:
    """What a harm did: job -> what hit it, and the calls that were disturbed."""

    hits: dict[Job, str] = field(default_factory=dict)
    said: list[Said] = field(default_factory=list)


@dataclass(frozen=True)
class Bench:
    """A workspace in which everything has been made once.

    Attributes:
        reference: path -> SHA-256 of every output but records.
        seconds: record -> processor seconds of the job.
    """

    calls: Calls
    jobs: Sequence[Job]
    reference: Mapping[str, str]
    seconds: Mapping[str, float]

    @property
    def folder(self) -> Path:
        """The workspace."""
        return self.calls.workspace.folder

    def remove(self, jobs: Iterable[Job]) -> None:
        """Remove all that jobs wrote."""
        for path in (self.folder / name for job in jobs for name in job.files):
            if path.is_dir():
                shutil.rmtree(path)
            path.unlink(missing_ok=True)

    def is_made(self, job: Job) -> bool:
        """Tell whether all that a job writes is there."""
        return all((self.folder / name).is_file() for name in job.files)

    def state(self, jobs: Iterable[Job]) -> State:
        """Return the state of all files of these jobs that are there."""
        found: State = {}
        for name in (name for job in jobs for name in job.files):
            if (self.folder / name).is_file():
                status = (self.folder / name).stat()
                found[name] = status.st_mtime_ns * (status.st_mtime_ns < time.time_ns()), status.st_ino
        return found

    def wrong(self, jobs: Iterable[Job]) -> list[str]:
        """Return the files of these jobs that are missing or have other bytes than the reference."""
        names = [name for job in jobs for name in job.outputs]
        return [
            name
            for name in names
            if not (self.folder / name).is_file() or sha256(self.folder / name) != self.reference[name]
        ]


def made_again(before: State, after: State) -> list[str]:
    """Return the files that have other times or numbers than before; a time of the future may become that of now."""

    def same(name: str) -> bool:
        (time_then, number_then), (time_now, number_now) = before[name], after.get(name, (0, 0))
        return number_now == number_then and time_then in (0, time_now)

    return [name for name in before if not same(name)]


def trial(bench: Bench, kind: str, jobs: Sequence[Job], harm: Callable[[Sequence[Job]], Harm]) -> list[Fault]:
    """Remove what some jobs of one rank made, make it anew under a harm, run the plain command, and compare.

    Only a job that the harm reports as hit is counted.
    """
    others = [job for job in bench.jobs if job not in jobs]
    before = bench.state(others)
    bench.remove(jobs)
    done = harm(jobs)
    finished = [job for job in jobs if job not in done.hits and bench.is_made(job)]
    before |= bench.state(finished)
    plain = bench.calls.plain([job.target for job in jobs])
    after = bench.state([*others, *finished])
    return verdicts(bench, kind, done, plain, made_again(before, after))


def verdicts(bench: Bench, kind: str, done: Harm, plain: Said, lost: Sequence[str]) -> list[Fault]:
    """Return a line for each fault; what belongs to no single one of them stands in the first."""
    said = [*done.said, plain]
    shared = {"lost": len(lost), "tracebacks": sum(one.tracebacks for one in said),
              "interrupts": sum(one.interrupts for one in said)}  # fmt: skip
    seconds = sum(one.seconds for one in said) / max(1, len(done.hits))
    found = []
    for job, what in done.hits.items():
        wrong = bench.wrong([job])
        reasons = [f"the plain command ended with {plain.status}: {plain.last_line}"] * bool(plain.status)
        reasons += [f"other bytes: {', '.join(wrong)}"] * bool(wrong)
        reasons += [f"made again: {', '.join(lost[:3])}"] * bool(shared["lost"])
        if shared["tracebacks"]:
            reasons.append(f"a traceback: {next(end for one in said for end in one.unasked)[:LONGEST]}")
        survived = not plain.status and not wrong
        found.append(Fault(kind, job.stage, what, seconds, survived, wrong=len(wrong), **shared,
                           reason="; ".join(reasons)))  # fmt: skip
        shared = dict.fromkeys(shared, 0)
    return found
