"""The audit: recompute every hash that a record states, and compare the code that made it with the code here."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from leaklab.planning.code import code_of, code_of_record
from leaklab.planning.code_lock import CodeLock
from leaklab.records import git
from leaklab.records.config import parse
from leaklab.records.errors import UserError
from leaklab.records.files import sha256
from leaklab.records.ledger import Entry, Ledger
from leaklab.records.progress import tracked
from leaklab.records.recorder import CODE_PATHS, git_state
from leaklab.specs.base import RUNS, Spec
from leaklab.specs.law import LawSpec
from leaklab.specs.stages import RULES, Reads, recorded

UNCOMMITTED = "made by uncommitted code: commit, then run snakemake again"


@dataclass
class Audit:
    """What was checked and what is wrong.

    Attributes:
        breaks: files that are not what a record says; any of them fails the audit.
        stale: records of results that were not made by the code here; they fail the audit of a checkout.
        absent: recorded files that are not in this checkout (fetch them with ``dvc pull``, or run snakemake).
        remade: runs that were made again here, with other bytes than a published result rests on (as another machine
            may), where that result cannot be made again from what is here.
        adopted: records of older code that the code here stands for.
        evidence: records of the runs that were repeated for it.
        reworded: items that were edited after results of theirs, which they would give again.
    """

    records: int = 0
    files: int = 0
    breaks: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    absent: set[str] = field(default_factory=set)
    remade: list[str] = field(default_factory=list)
    adopted: set[Path] = field(default_factory=set)
    evidence: set[str] = field(default_factory=set)
    reworded: set[str] = field(default_factory=set)


class Made(NamedTuple):
    """What made a file, as the code here sees it: rule, the same with its plug-ins, digest of the code here."""

    rule: str
    key: str
    code: str


Same = Callable[[str, str, Mapping[str, Any], Path], bool]
"""Whether a result would be the same of an edited input: its path, the recorded SHA-256, the record, the root."""


def audit(ledger: Ledger, checksum: Callable[[Path], str] = sha256, same: Same | None = None) -> Audit:
    """Check all records of a checkout.

    Runs that no result rests on any more (left over from earlier settings) are checked for their outputs only.

    Args:
        ledger: the records.
        checksum: returns the SHA-256 of a file.
        same: tells of an edited input whether the result would be the same; None: of none.
    """
    result = Audit(records=len(ledger.entries))
    lock = CodeLock.load(ledger.root)
    hashes = _Hashes(ledger, checksum)
    wanted = behind_results(ledger)
    committed = git_state()["dirty"] is False
    for entry in tracked(ledger.entries, len(ledger.entries)):
        changed = f"changed since {entry.path} recorded it"
        result.breaks.extend(f"{path}: {changed}" for path in hashes.changed(entry.outputs))
        if entry.path in wanted:
            result.stale.extend(_code_breaks(entry, ledger, lock, result, committed))
            for path in hashes.changed(entry.inputs):
                if same is not None and same(path, entry.inputs[path], entry.content, ledger.root):
                    result.reworded.add(path)
                    continue
                kind = result.remade if _is_remade(path, entry, ledger, hashes) else result.breaks
                kind.append(f"{path}: not the file that {entry.path} was made from")
    result.files = sum(value is not None for value in hashes.known.values())
    result.absent = {path for path, value in hashes.known.items() if value is None}
    return result


def behind_results(ledger: Ledger) -> set[Path]:
    """Return the records that a result, figure or report rests on."""
    found: set[Path] = set()
    waiting = [entry for entry in ledger.entries if not entry.path.is_relative_to(RUNS)]
    while waiting:
        entry = waiting.pop()
        if entry.path not in found:
            found.add(entry.path)
            waiting.extend(ledger.makers[path] for path in entry.inputs if path in ledger.makers)
    return found


class _Hashes:
    """SHA-256 of each file, computed once; None for a file that is not here."""

    def __init__(self, ledger: Ledger, checksum: Callable[[Path], str]) -> None:
        self.root = ledger.root
        self.checksum = checksum
        self.known: dict[str, str | None] = {}

    def of(self, path: str) -> str | None:
        if path not in self.known:
            file = self.root / path
            self.known[path] = self.checksum(file) if file.is_file() else None
        return self.known[path]

    def changed(self, recorded: Mapping[str, str]) -> Iterator[str]:
        """Yield the files that are here with other bytes."""
        return (path for path, value in recorded.items() if self.of(path) not in (None, value))


def _is_remade(path: str, entry: Entry, ledger: Ledger, hashes: _Hashes) -> bool:
    """Tell whether a run was made again, and the published result that rests on it cannot be, for want of other runs.

    Two machines need not agree in the last bit, and no run takes the same time twice. The run is then what its own
    record says of it, and a record that was written after its reader is its own witness.
    """
    maker = ledger.makers.get(path)
    # ISO 8601 in UTC, so the text sorts as the time does; an older record that differs was changed by hand
    later = {run.path for run in ledger.entries if run.content["started"] > entry.content["started"]}
    stated = Path(path) in later or (maker is not None and maker.outputs[path] == hashes.of(path))
    made_here = stated and Path(path).is_relative_to(RUNS)
    return made_here and any(hashes.of(other) is None for other in entry.inputs)


def _code_breaks(entry: Entry, ledger: Ledger, lock: CodeLock, result: Audit, committed: bool) -> Iterator[str]:
    """Yield what is wrong with the code that made a result; ``committed``: nothing differs from git here.

    Of a checkout with changes of its own only the code counts that the run used. Where its digest is that of the code
    here, and all of that is in git, so was it.
    """
    made, code = made_by(entry, ledger), entry.content["code"]
    known = made is not None and lock.accepts(made.key, code, made.code)
    if entry.content.get("dirty") and not (known and committed):
        yield f"{entry.path}: {UNCOMMITTED}"
    if made is None or not known:
        yield f"{entry.path}: made by other code than the code here: run snakemake again, or `leaklab adopt`"
    elif code != made.code:
        result.adopted.add(entry.path)
        result.evidence.update(lock.lines[made.key].evidence)


def made_by(entry: Entry, ledger: Ledger) -> Made | None:
    """Return what makes such a file here; None if the code here no longer knows its spec."""
    if entry.rule not in RULES:
        code = code_of_record(entry.rule, entry.content["spec"])
    else:
        spec = spec_of(entry, ledger)
        if spec is None:
            return None
        code = code_of(spec)
    return Made(entry.rule, code.key, code.digest)


def spec_of(entry: Entry, ledger: Ledger) -> Spec | None:
    """Return the spec of a run's record; None if the code here no longer knows it, or it is no run's.

    A job is not told all: an attack nothing of its capture, for one. The rest stands in the records of what it read.
    """
    kind = RULES.get(entry.rule)
    if kind is None:
        return None
    try:
        return parse(kind, recorded(kind, entry.content["spec"], _read(entry, ledger)), entry.path)
    except UserError:
        return None


def _read(entry: Entry, ledger: Ledger) -> Reads:
    """Return the kinds and the specs of the runs whose files a job read."""
    makers = {maker.path: maker for path in entry.inputs if (maker := ledger.makers.get(path))}.values()
    for maker in makers:
        if (kind := RULES.get(maker.rule)) is not None:
            whole = spec_of(maker, ledger) if kind is LawSpec else None
            yield kind, whole.model_dump(mode="json") if whole else maker.content["spec"]


# What is said last where it fails because of an edit here: the way back to an audit that passes.

SHOWN = 3
"""Edited files that are named; of more, how many there are."""


def way_back(found: Audit) -> str:
    """Return a sentence with the commands; empty where nothing was edited here, or made while it was."""
    edited, made = _edited(), [line.partition(":")[0] for line in found.stale if line.endswith(UNCOMMITTED)]
    if not (found.breaks or found.stale) or not (edited or made):
        return ""
    steps = []
    if edited:
        folders = " ".join(sorted({name.partition("/")[0] for name in edited}))
        steps.append(
            f"undo what is edited here ({_listed(edited)}): `git stash --include-untracked -- {folders}` puts it aside"
        )
    if made:
        steps.append(
            f"take away what was made meanwhile ({_listed(made)}): `git checkout -- results figures`, `make clean`, "
            "and the folders of those runs; snakemake makes anew what is asked for"
        )
    return f"back to an audit that passes: {'; then '.join(steps)}"


def _edited() -> list[str]:
    """Return the files of code and configuration that differ from the commit, or are new."""
    try:
        found = git.asked("status", "--porcelain", "--no-renames", "-z", "--untracked-files=all", "--", *CODE_PATHS)
    except UserError:
        return []
    return [line[3:].decode(errors="replace") for line in found.split(b"\0") if line]


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if names[SHOWN:] else ""
    return f"{', '.join(names[:SHOWN])}{more}"
