"""All mends of Snakemake; those of its executor for Slurm are in ``slurm_patches.py``, and no other file has any.

Each mend says what upstream does by itself, in which version that was seen, and where it is reported. They are for
snakemake 9.27. The tests that watch upstream fail when a mend is not needed any
more, or takes hold of nothing.
"""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from leaklab.planning.gpus import device_of, refuse_missing_gpu
from leaklab.planning.outputs import Aside
from leaklab.planning.reasons import cannot_pass
from leaklab.records.collector import collect_rarely
from leaklab.records.errors import UserError
from leaklab.records.files import write_text
from leaklab.records.walk import files_below

# of `--max-jobs-per-timespan`: jobs, seconds
DEFAULT_LIMIT = (100, 1)
PLACES = (Path("config"), Path("data/prepared"), Path("figures"), Path("results"))
TOLERANCE = 5.0
"""Seconds by which the clocks of this machine and of its file server may differ."""


def patch_every_process() -> None:
    """Mend what runs in the user's process and in those of its jobs; to be called once in a process."""
    from snakemake.exceptions import WorkflowError
    from snakemake.jobs import Job
    from snakemake.persistence.file import FilePersistence

    collect_rarely()
    keep_finished_outputs(Job, FilePersistence)
    ask_for_the_gpu_first(Job, WorkflowError)


def patch_main_process() -> None:
    """Mend what runs in the user's process only."""
    from snakemake.jobs import Job
    from snakemake.persistence.file import FilePersistence

    keep_to_own_locks(FilePersistence)
    give_up_what_cannot_pass(Job, time.time())


def keep_finished_outputs(job: Any, persistence: Any) -> None:
    """Let this process leave a job's old outputs and records alone until the job has made new ones.

    Upstream: the outputs of a job are removed before it starts, and what is there when it has failed; then the
    parameters of the job that failed are noted as if it had made something. So a job that cannot even start costs what
    an earlier one had finished, and the next call takes what is gone for made. Reported in snakemake issues 3351 and
    3808, both open; seen in snakemake 9.27.

    The mend: old outputs stay in their places, and steps rename new ones over them (``records/files.py``). The old ones
    are linked aside meanwhile, so that a job that fails halfway leaves all of them as they were, or nothing where there
    was nothing. Jobs of a cluster are begun on a node and may be killed with it; then the call that submitted them puts
    back what it finds aside.

    Args:
        job: class of Snakemake's jobs.
        persistence: class that keeps its records as files.
    """
    postprocess, finished = job.postprocess, persistence.finished
    failed: set[Any] = set()

    async def remove_existing_output(self: Any) -> None:
        with suppress(OSError):  # as on a full disk: then they stay without being linked
            Aside(self.output).take()
        for log in self.log:
            await log.remove(remove_non_empty_dir=False)

    async def cleanup(self: Any, skip_outputs: Any) -> None:
        with suppress(OSError):  # they are put back when the job is begun again
            Aside(self.output).put_back()

    async def end(self: Any, *arguments: Any, error: bool = False, **more: Any) -> None:
        if error:
            failed.add(self)
        else:
            Aside(self.output).remove_unmade()
        try:
            await postprocess(self, *arguments, error=error, **more)
        finally:
            failed.discard(self)

    def keep_records(self: Any, undone: Any) -> None:
        self._clear_cache()
        for path in undone.output:
            self._unmark_incomplete(self._get_key(path))

    async def note(self: Any, done: Any) -> None:
        if done in failed:
            keep_records(self, done)
        else:
            Aside(done.output).drop()
            await finished(self, done)

    job.remove_existing_output, job.cleanup, job.postprocess = remove_existing_output, cleanup, end
    persistence.finished, persistence.cleanup = note, keep_records


def ask_for_the_gpu_first(job: Any, ended: type[Exception]) -> None:
    """Let a job that needs a GPU ask for one before it touches a file, and end with ``ended`` where none works.

    Upstream: a job finds out by itself, after its log is opened and its old outputs are put aside. What the call on a
    login node cannot know, whether the node of a job has a GPU, is asked where the job begins. No fault of Snakemake's
    (9.27), which has no place for such a question.

    The line is the last of the job's log too, where calls look for what they show of a failed job.
    """
    prepare = job.prepare

    async def prepared(self: Any) -> None:
        try:
            refuse_missing_gpu([device_of(self)])
        except UserError as error:
            for log in map(Path, self.log):
                write_text(log, f"leaklab {self.rule.name}: {error}\n")
            raise ended(f"leaklab: {error}") from None
        await prepare(self)

    job.prepare = prepared


def keep_to_own_locks(kind: Any) -> None:
    """Let this process make and remove its own locks only; ``kind`` is the class that keeps locks as files.

    Upstream: a call that ends removes the folder of all locks. That takes the locks of those that still work in the
    checkout, and a call that is about to write its own, or reads those of others, ends with a traceback. Not reported,
    seen in snakemake 9.27.
    """
    read, write, delete = kind._read_locks, kind._write_locks, kind._delete_locks

    def read_locks(self: Any) -> Iterator[tuple[str, str]]:
        while True:
            with suppress(FileNotFoundError):  # the call whose lock it was has ended meanwhile
                return iter(list(read(self)))

    def write_locks(self: Any, lock_type: str, keys: Iterable[str]) -> None:
        Path(self._lockdir).mkdir(parents=True, exist_ok=True)
        write(self, lock_type, keys)

    def delete_locks(self: Any) -> None:
        for file in self._lockfile.values():
            Path(file).unlink(missing_ok=True)
        self._lockfile.clear()
        with suppress(OSError):  # others have locks there
            Path(self._lockdir).rmdir()

    kind._read_locks, kind._write_locks, kind._delete_locks = read_locks, write_locks, delete_locks
    kind.cleanup_locks = delete  # `snakemake --unlock` means all of them


def drop_default_limit(scheduler: Any) -> None:
    """Take the default limit of jobs a second from Snakemake's scheduler; one that a user has set stays.

    Upstream: with a limit, all ready jobs are looked at again a second after they last were, and so once more a second
    for each job that has ended meanwhile: after some hundred jobs Snakemake's own process takes a core for itself. The
    limit works since pull request 3399, with a default; its cost is not reported, seen in snakemake 9.27.

    Args:
        scheduler: ``workflow.scheduler``, whose ``job_rate_limiter`` may be None.
    """
    limiter = scheduler.job_rate_limiter
    if limiter is not None and (limiter.max_jobs, limiter.timespan) == DEFAULT_LIMIT:
        scheduler.job_rate_limiter = None


def bring_to_now(root: Path = Path()) -> str:
    """Give files with a time in the future, of a clock that was wrong once, that of now.

    Upstream: a job whose output is older than an input fails, and takes its output with it. Reported in snakemake
    issues 3254 and 3261, both open; seen in snakemake 9.27. Nothing is made again for the mend, as what is newer is
    compared by content. A file that may not be touched keeps its time.

    Returns:
        what was done, for the user; empty where there was nothing to do.
    """
    late, changed = time.time() + TOLERANCE, []
    for path in (path for place in PLACES for path in files_below(root / place, closed=False)):
        with suppress(OSError):  # it has gone meanwhile, or belongs to somebody else
            if path.stat().st_mtime > late:
                os.utime(path)
                changed.append(path)
    if not changed:
        return ""
    return f"{len(changed)} files had a time in the future, which is that of now ({changed[0]})"


def give_up_what_cannot_pass(job: Any, since: float) -> None:
    """Let this process try no job again whose log says that another try would end alike.

    Upstream: a job is tried as often as ``retries`` says, whatever ended it: a misspelt name is met again each time.
    Not reported, seen in snakemake 9.27.

    Args:
        job: class of Snakemake's jobs.
        since: when the call began [s since 1970]; a log that is older is of another call.
    """
    asked = job.restart_times.fget

    def restart_times(self: Any) -> int:
        logs = [path for path in map(Path, self.log) if path.is_file() and path.stat().st_mtime > since - TOLERANCE]
        return 0 if cannot_pass(self.rule.name, logs) else int(asked(self))

    job.restart_times = property(restart_times)
