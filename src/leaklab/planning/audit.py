"""The audit: recompute every hash that a record states, and compare the code that made it with the code here."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from leaklab.planning.code import RULE_OF_STAGE, code_of, code_of_rule
from leaklab.records.config import parse
from leaklab.records.errors import UserError
from leaklab.records.files import sha256
from leaklab.records.ids import RUNS, STAGES
from leaklab.records.ledger import Entry, Ledger
from leaklab.records.specs import Spec

STAGE_OF_RULE = {rule: stage for stage, rule in RULE_OF_STAGE.items()}


@dataclass
class Audit:
    """What was checked and what is wrong.

    Attributes:
        breaks: files that are not what a record says; any of them fails the audit.
        stale: records of results that were not made by the code here; they fail the audit of a checkout.
        absent: recorded files that are not in this checkout (fetch them with ``dvc pull``, or run snakemake).
    """

    records: int = 0
    files: int = 0
    breaks: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    absent: set[str] = field(default_factory=set)


def audit(ledger: Ledger) -> Audit:
    """Check all records of a checkout.

    Runs that no result rests on any more (left over from earlier settings) are checked for their outputs only.
    """
    result = Audit(records=len(ledger.entries))
    hashes = _Hashes(ledger)
    wanted = _behind_results(ledger)
    for entry in ledger.entries:
        result.breaks.extend(hashes.changed(entry.outputs, f"changed since {entry.path} recorded it"))
        if entry.path in wanted:
            result.stale.extend(_code_breaks(entry))
            result.breaks.extend(hashes.changed(entry.inputs, f"not the file that {entry.path} was made from"))
    result.files = sum(value is not None for value in hashes.known.values())
    result.absent = {path for path, value in hashes.known.items() if value is None}
    return result


def _behind_results(ledger: Ledger) -> set[Path]:
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

    def __init__(self, ledger: Ledger) -> None:
        self.root = ledger.root
        self.known: dict[str, str | None] = {}

    def changed(self, recorded: Mapping[str, str], meaning: str) -> Iterator[str]:
        for path, value in recorded.items():
            if path not in self.known:
                file = self.root / path
                self.known[path] = sha256(file) if file.is_file() else None
            if self.known[path] not in (None, value):
                yield f"{path}: {meaning}"


def _code_breaks(entry: Entry) -> Iterator[str]:
    if entry.content.get("dirty"):
        yield f"{entry.path}: made by uncommitted code: commit, then run snakemake again"
    if entry.content["code"] != _expected_code(entry):
        yield f"{entry.path}: made by other code than the code here: run snakemake again"


def _expected_code(entry: Entry) -> str | None:
    """Return the digest of the code here; None if it no longer knows such a spec."""
    stage = STAGE_OF_RULE.get(entry.rule)
    if stage is None:
        return code_of_rule(entry.rule)
    try:
        spec: Spec = parse(STAGES[stage], entry.content["spec"], entry.path)  # type: ignore[arg-type]
    except UserError:
        return None
    return code_of(spec)
