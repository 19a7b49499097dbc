"""Checksums that an earlier audit found, so that a later one need not read what has not changed since.

A checksum counts for a file of the same path, size, inode and times of content and inode. Who writes a file can set
its time of content back, but not its ctime, which only the clock of the machine gives. So an edit is seen, and what no
program did is not: bits that the disk lost, and who changes the kept checksums themselves. `leaklab audit --full` reads
everything, whatever is kept.
"""

import json
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from leaklab.records.errors import UserError
from leaklab.records.files import sha256, write_json

FILE = Path(".snakemake/audit-checksums.json")
FORMAT = 1
SETTLED_NS = 2_000_000_000
"""A file that changed less than so long ago may change again within the same tick of the clock: it is not kept."""

Mark = tuple[int, int, int, int]
"""Size, time of content [ns], inode, time of inode [ns]."""


@dataclass
class KeptChecksums:
    """What is kept of some files.

    Attributes:
        file: where it is kept; a folder that is not there is not made.
        known: mark and SHA-256 of each path, from an earlier audit.
        asked: the same of each path that was asked for since, where it may be kept.
        read: files that were read since.
        spared: files that were not.
    """

    file: Path = FILE
    known: dict[str, tuple[Mark, str]] = field(default_factory=dict)
    asked: dict[str, tuple[Mark, str]] = field(default_factory=dict)
    read: int = 0
    spared: int = 0

    @classmethod
    def load(cls, file: Path = FILE) -> "KeptChecksums":
        """Read what is kept; nothing where the file is damaged or missing."""
        found = cls(file)
        with suppress(OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
            content = json.loads(file.read_text(encoding="utf-8"))
            if content["format"] == FORMAT:
                found.known = {path: _line(line) for path, line in content["files"].items()}
        return found

    def of(self, path: Path) -> str:
        """Return the SHA-256 of a file as hex, read only where it is not the one that was read before."""
        before, name = _mark(path), path.as_posix()
        kept = self.known.get(name)
        if kept is not None and kept[0] == before:
            self.asked[name], self.spared = kept, self.spared + 1
            return kept[1]
        value, self.read = sha256(path), self.read + 1
        if _mark(path) == before and _settled(before):
            self.asked[name] = before, value
        return value

    def save(self) -> None:
        """Keep what was asked for, in place of what was kept; a full disk is no mistake."""
        if self.file.parent.is_dir():
            lines = {path: [*mark, value] for path, (mark, value) in self.asked.items()}
            with suppress(OSError, UserError):
                write_json(self.file, {"format": FORMAT, "files": lines})


def _line(line: object) -> tuple[Mark, str]:
    if not isinstance(line, list) or [type(part) for part in line] != [int, int, int, int, str]:
        raise ValueError("not a mark and a checksum")
    size, modified, inode, changed, value = line
    return (size, modified, inode, changed), value


def _mark(path: Path) -> Mark:
    found = path.stat()
    return found.st_size, found.st_mtime_ns, found.st_ino, found.st_ctime_ns


def _settled(mark: Mark) -> bool:
    return time.time_ns() - max(mark[1], mark[3]) > SETTLED_NS
