"""What a job made before stays until it has made it anew, whatever becomes of the job."""

import hashlib
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

PLACE = Path(".snakemake/aside")


def keep_finished_outputs() -> None:
    """Let this process leave a job's old outputs and records alone until the job has made new ones.

    By itself Snakemake (9.27) removes the outputs of a job before it starts, and what is there when it has failed; then
    it notes the parameters of the job that failed as if it had made something. So a job that cannot even start costs
    what an earlier one had finished, and the next call takes what is gone for made.
    """
    from snakemake.jobs import Job
    from snakemake.persistence.file import FilePersistence

    mend(Job, FilePersistence)


def mend(job: Any, persistence: Any) -> None:
    """Mend the class of jobs and the one that keeps Snakemake's records as files.

    Old outputs stay in their places, and steps rename new ones over them (``records/files.py``). The old ones are
    linked aside meanwhile, so that a job that fails halfway leaves all of them as they were, or nothing where there was
    nothing. Jobs of a cluster are begun on a node and may be killed with it; then the call that submitted them puts
    back what it finds aside.
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


class Aside:
    """Links to the outputs that a job found when it began; none, while it works, where it found none."""

    def __init__(self, outputs: Iterable[object], place: Path = PLACE) -> None:
        """Name the folder of the links; it is there from ``take`` until ``put_back`` or ``drop``.

        Args:
            outputs: all files that the job makes.
            place: the folder for all jobs.
        """
        paths = [Path(str(path)) for path in outputs]
        self.kept = {path: _name(str(path)) for path in paths}
        self.folder = place / _name("\n".join(map(str, paths)))

    def take(self) -> None:
        """Link what is there; a job that was begun and never ended is put back first."""
        self.put_back()
        part = self.folder.with_name(f"{self.folder.name}.{os.getpid()}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        for path, name in self.kept.items():
            if path.is_file():
                _link(path, part / name)
        part.rename(self.folder)

    def put_back(self) -> None:
        """Make the outputs what they were when the job began; nothing happens where none was begun."""
        if not self.folder.is_dir():
            return
        for path, name in self.kept.items():
            if not (self.folder / name).exists():
                path.unlink(missing_ok=True)
            elif not _same(path, self.folder / name):
                path.parent.mkdir(parents=True, exist_ok=True)
                part = path.with_name(f".{path.name}.{os.getpid()}.part{path.suffix}")
                _link(self.folder / name, part)
                part.replace(path)
        self.drop()

    def remove_unmade(self) -> None:
        """Remove old outputs in whose place the job made none, so that Snakemake misses them."""
        for path, name in self.kept.items():
            if _same(path, self.folder / name):
                path.unlink()

    def drop(self) -> None:
        """Take the links away, all at once."""
        gone = self.folder.with_name(f"{self.folder.name}.{os.getpid()}.gone")
        with suppress(FileNotFoundError):
            self.folder.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)


def _name(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _same(path: Path, kept: Path) -> bool:
    try:
        one, other = path.stat(), kept.stat()
    except FileNotFoundError:
        return False
    return (one.st_mtime_ns, one.st_size) == (other.st_mtime_ns, other.st_size)


def _link(path: Path, copy: Path) -> None:
    copy.unlink(missing_ok=True)
    try:
        os.link(path, copy)
    except OSError:  # another file system, or one that knows no links
        shutil.copy2(path, copy)
