"""What a job made before is linked aside until the job has made it anew, whatever becomes of the job."""

import hashlib
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

PLACE = Path(".snakemake/aside")


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
