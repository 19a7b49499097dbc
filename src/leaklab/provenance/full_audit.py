"""What ``leaklab audit`` checks of a checkout: records, published files, adoptions, a commit, signatures.

Checksums that an earlier audit found are kept, so that a later one need not read what has not changed since. A
checksum counts for a file of the same path, size, inode and times of content and inode. Who writes a file can set its
time of content back, but not its ctime, which only the clock of the machine gives. So an edit is seen, and what no
program did is not: bits that the disk lost, and who changes the kept checksums themselves. `leaklab audit --full`
reads everything, whatever is kept.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leaklab.items.items import load_items
from leaklab.planning.code_lock import CodeLock
from leaklab.planning.names import FOLDER
from leaklab.planning.own_items import without_own
from leaklab.planning.plan import set_up
from leaklab.planning.run_records import checked_ledger
from leaklab.provenance import published
from leaklab.provenance.audit import Audit, Same, audit, way_back
from leaklab.provenance.signing import Checked, check, signatures, unsigned_scales
from leaklab.records.errors import UserError
from leaklab.records.files import sha256, write_json
from leaklab.records.git import unknown_commit

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


@dataclass(frozen=True)
class FullAudit:
    """What a full audit found.

    Attributes:
        audit: of the records.
        lost: files that are missing or without a record.
        unfit: faults of the code lock.
        compared: what is published, beside a commit; None where none was named.
        signed: of each signature; empty where no public key was named.
        unchecked: signatures without a public key to check them by.
        unsigned_scales: that have no signature, where a key was named.
        own: records of one's own items, which are not checked.
        spared: files that were not read again.
        hint: what to know of git, or to do for an audit that passes; empty where there is nothing to say.
    """

    audit: Audit
    lost: tuple[str, ...]
    unfit: tuple[str, ...]
    compared: published.Compared | None
    signed: tuple[Checked, ...]
    unchecked: tuple[Path, ...]
    unsigned_scales: tuple[str, ...]
    own: int
    spared: int
    hint: str = ""

    @property
    def differences(self) -> tuple[str, ...]:
        """Return what differs from the commit."""
        return tuple(self.compared.differences) if self.compared else ()

    @property
    def faults_of_signatures(self) -> tuple[str, ...]:
        """Return what is wrong with signatures."""
        return tuple(fault for one in self.signed for fault in one.faults)

    @property
    def faults(self) -> tuple[str, ...]:
        """Return all that fails the audit, line by line."""
        first = (*self.audit.breaks, *self.audit.stale, *self.lost, *self.unfit)
        return (*first, *self.differences, *self.faults_of_signatures)

    @property
    def verdict(self) -> str:
        """Return the last line, after a colon that says whether the audit passed."""
        counts = f"{self.audit.records} records, {self.audit.files} files checked"
        if self.spared:
            counts += f" ({self.spared} unchanged since an earlier audit and not read again: --full reads all)"
        if self.compared:
            counts += f", {self.compared.files} of them published with commit {self.compared.commit[:12]}"
        if not self.faults:
            return f"audit passed: {counts}"
        against = f"{len(self.differences)} differences from the commit, " if self.compared else ""
        against += f"{len(self.faults_of_signatures)} faults of signatures, " if self.signed else ""
        return (
            f"audit failed: {against}{len(self.audit.breaks)} changed files, {len(self.audit.stale)} stale records, "
            f"{len(self.lost)} files missing or without a record, {len(self.unfit)} faults of the code lock; {counts}"
        )

    def lines(self) -> Iterator[str]:
        """Yield all that was found but the verdict."""
        yield from self.faults
        yield from _besides(self.audit)
        if self.own:
            yield f"{self.own} records of items in {FOLDER} are nobody else's, and not checked"
        yield from (f"{one}: not checked: name the public key with --signed-by" for one in self.unchecked)
        yield from (
            f"{one.signature}: valid, {one.files} signed files are here" for one in self.signed if not one.faults
        )
        yield from (f"results/{scale}: has no signature" for scale in self.unsigned_scales)
        yield from filter(None, (self.hint,))

    def as_json(self) -> dict[str, Any]:
        """Return all of it for programs."""
        found = self.audit
        return {
            "passed": not self.faults,
            "verdict": self.verdict,
            "records": found.records,
            "files": found.files,
            "changed": found.breaks,
            "stale": found.stale,
            "missing": list(self.lost),
            "code_lock": list(self.unfit),
            "differences": list(self.differences),
            "signatures": list(self.faults_of_signatures),
            "not_here": sorted(found.absent),
            "made_again": found.remade,
            "edited": sorted(found.reworded),
            "adopted": sorted(map(str, found.adopted)),
            "hint": self.hint,
        }


def full_audit(
    revision: str | None = None, key: Path | None = None, full: bool = False, same: Same | None = None
) -> Iterator[str]:
    """Check everything, and yield what was found line by line; see ``checked``.

    Raises:
        UserError: a link of the chain is broken, or there is nothing to audit.
    """
    found = checked(revision, key, full, same)
    yield from found.lines()
    if found.faults:
        raise UserError(found.verdict)
    yield found.verdict


def checked(
    revision: str | None = None, key: Path | None = None, full: bool = False, same: Same | None = None
) -> FullAudit:
    """Check everything.

    Args:
        revision: a commit to compare what is published with; None for none.
        key: public key by which what is signed has to be signed; None to leave signatures unchecked.
        full: read every file, also those that are as an earlier audit left them.
        same: tells of an edited input whether the result would be the same.

    Raises:
        UserError: there is nothing to audit.
    """
    every = checked_ledger()
    ledger = without_own(every)
    if not ledger.entries:
        raise UserError("audit failed: no run record here: run it in the root folder of a project that has results")
    checksums = KeptChecksums() if full else KeptChecksums.load()
    result = audit(ledger, checksums.of, same)
    checksums.save()
    return FullAudit(
        audit=result,
        unfit=tuple(CodeLock.load().faults(ledger)),
        lost=tuple(published.faults(set_up(load_items()), ledger)),
        compared=None if revision is None else published.compare(revision),
        signed=() if key is None else tuple(check(key)),
        unchecked=tuple(signatures()) if key is None else (),
        unsigned_scales=() if key is None else tuple(unsigned_scales()),
        own=len(every.entries) - len(ledger.entries),
        spared=checksums.spared,
        hint=_without_git(unknown_commit()) or way_back(result),
    )


def _without_git(why: str) -> str:
    return f"whether code here is committed is not known: {why}" if why else ""


def _besides(result: Audit) -> Iterator[str]:
    """Yield what does not fail an audit, and should be known."""
    if result.absent:
        places = Counter(str(Path(path).parent.parent) for path in result.absent)
        where = ", ".join(f"{count} below {place}" for place, count in places.most_common())
        how = "snakemake makes them, `dvc pull` brings them where a remote is set"
        yield f"not in this checkout, so not checked: {where} ({how})"
    if result.remade:
        yield f"made again here with other bytes beside published results, as another machine may: {len(result.remade)}"
        yield from (f"  {line}" for line in result.remade)
    if result.reworded:
        edited = "edited after their results, which they would give again"
        yield f"{edited}: {len(result.reworded)} items ({', '.join(sorted(result.reworded))})"
    if result.adopted:
        yield f"{len(result.adopted)} records adopted on the evidence of {len(result.evidence)} runs"
