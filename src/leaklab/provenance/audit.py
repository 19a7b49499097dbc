"""The audit: recompute every hash that a record states, and compare the code that made it with the code here."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from leaklab.items.items import load_items
from leaklab.planning.code import code_of, code_of_record
from leaklab.planning.code_lock import CodeLock
from leaklab.planning.plan import build_plan
from leaklab.planning.run_records import checked_ledger
from leaklab.provenance import published
from leaklab.provenance.checksums import KeptChecksums
from leaklab.provenance.signing import check, signatures, unsigned_scales
from leaklab.records.config import parse
from leaklab.records.errors import UserError
from leaklab.records.files import sha256
from leaklab.records.ledger import Entry, Ledger
from leaklab.records.recorder import git_state
from leaklab.specs.base import RUNS, Spec
from leaklab.specs.stages import RULES


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
    """

    records: int = 0
    files: int = 0
    breaks: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    absent: set[str] = field(default_factory=set)
    remade: list[str] = field(default_factory=list)
    adopted: set[Path] = field(default_factory=set)
    evidence: set[str] = field(default_factory=set)


class Made(NamedTuple):
    """What made a file, as the code here sees it: rule, the same with its plug-ins, digest of the code here."""

    rule: str
    key: str
    code: str


def audit(ledger: Ledger, checksum: Callable[[Path], str] = sha256) -> Audit:
    """Check all records of a checkout.

    Runs that no result rests on any more (left over from earlier settings) are checked for their outputs only.

    Args:
        ledger: the records.
        checksum: returns the SHA-256 of a file.
    """
    result = Audit(records=len(ledger.entries))
    lock = CodeLock.load(ledger.root)
    hashes = _Hashes(ledger, checksum)
    wanted = behind_results(ledger)
    committed = git_state()["dirty"] is False
    for entry in ledger.entries:
        changed = f"changed since {entry.path} recorded it"
        result.breaks.extend(f"{path}: {changed}" for path in hashes.changed(entry.outputs))
        if entry.path in wanted:
            result.stale.extend(_code_breaks(entry, ledger, lock, result, committed))
            for path in hashes.changed(entry.inputs):
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
        yield f"{entry.path}: made by uncommitted code: commit, then run snakemake again"
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

    An attack was told nothing of its capture: what that was stands in the record of the observation that it read.
    """
    kind = RULES.get(entry.rule)
    if kind is None:
        return None
    captured = _captured(entry, ledger) if kind.withheld else []
    withheld = {kind.withheld: captured[0]} if captured else {}
    try:
        return parse(kind, {**withheld, **entry.content["spec"]}, entry.path)
    except UserError:
        return None


def _captured(entry: Entry, ledger: Ledger) -> list[dict[str, Any]]:
    """Return the specs of the captures whose observations a job read."""
    makers = (ledger.makers.get(path) for path in entry.inputs)
    return [maker.content["spec"] for maker in makers if maker and maker.rule in RULES and RULES[maker.rule].observed]


# What ``leaklab audit`` checks of a checkout: records, published files, adoptions, a commit, signatures.


def full_audit(revision: str | None = None, key: Path | None = None, full: bool = False) -> Iterator[str]:
    """Check everything, and yield what was found line by line.

    Args:
        revision: a commit to compare what is published with; None for none.
        key: public key by which what is signed has to be signed; None to leave signatures unchecked.
        full: read every file, also those that are as an earlier audit left them.

    Raises:
        UserError: a link of the chain is broken, or there is nothing to audit.
    """
    ledger = checked_ledger()
    if not ledger.entries:
        raise UserError("audit failed: no run record here: run it in the root folder of a project that has results")
    checksums = KeptChecksums() if full else KeptChecksums.load()
    result = audit(ledger, checksums.of)
    checksums.save()
    unfit = list(CodeLock.load().faults(ledger))
    lost = published.faults(build_plan(load_items()), ledger)
    compared = None if revision is None else published.compare(revision)
    differences = compared.differences if compared else ()
    signed = [] if key is None else check(key)
    unsigned = [fault for one in signed for fault in one.faults]
    yield from [*result.breaks, *result.stale, *lost, *unfit, *differences, *unsigned]
    yield from _besides(result)
    if key is None:
        yield from (f"{signature}: not checked: name the public key with --signed-by" for signature in signatures())
    yield from (f"{one.signature}: valid, {one.files} signed files are here" for one in signed if not one.faults)
    if key is not None:
        yield from (f"results/{scale}: has no signature" for scale in unsigned_scales())
    verdict = f"{result.records} records, {result.files} files checked"
    if checksums.spared:
        verdict += f" ({checksums.spared} unchanged since an earlier audit and not read again: --full reads all)"
    if compared:
        verdict += f", {compared.files} of them published with commit {compared.commit[:12]}"
    if result.breaks or result.stale or lost or unfit or differences or unsigned:
        against = f"{len(differences)} differences from the commit, " if compared else ""
        against += f"{len(unsigned)} faults of signatures, " if signed else ""
        raise UserError(
            f"audit failed: {against}{len(result.breaks)} changed files, {len(result.stale)} stale records, "
            f"{len(lost)} files missing or without a record, {len(unfit)} faults of the code lock; {verdict}"
        )
    yield f"audit passed: {verdict}"


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
    if result.adopted:
        yield f"{len(result.adopted)} records adopted on the evidence of {len(result.evidence)} runs"
