"""The lock of code: which digests of code make the same bytes, and the repeated runs that showed it.

For each rule with its plug-ins one line: the *generation*, by which Snakemake knows the code, the digests that were
accepted for it, and hashes of what the repeated runs made. ``leaklab adopt`` writes it (``provenance/repeat.py``). Code
without a line, or whose digest is not in it, is a generation of its own. Rules give Snakemake the generation, so that a
refactoring reruns nothing; records keep the digest of the code that really ran.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import Field

from leaklab.planning.code import Code
from leaklab.records.config import parse
from leaklab.records.files import read_json, write_text
from leaklab.records.ledger import Entry, Ledger
from leaklab.records.record import Record, canonical_json

FILE = Path("results/code.lock")
WITNESSED = r"^[0-9a-f]{16} [0-9a-f]{16}$"


class Line(Record):
    """What is known of one rule with its plug-ins.

    Attributes:
        generation: digest by which Snakemake knows the code.
        accepted: digests of code that made the same bytes.
        evidence: record of a repeated run -> hashes of what it was made from and of what it made (``witnessed``).
    """

    generation: str
    accepted: tuple[str, ...]
    evidence: dict[str, Annotated[str, Field(pattern=WITNESSED)]]


@dataclass(frozen=True)
class CodeLock:
    """All lines, by rule and plug-ins (``planning/code.py::Code``)."""

    lines: Mapping[str, Line] = field(default_factory=dict)

    @classmethod
    def load(cls, root: Path = Path()) -> "CodeLock":
        """Read them; none where nothing was adopted yet.

        Raises:
            UserError: the file is damaged.
        """
        file = root / FILE
        content = read_json(file) if file.is_file() else {}
        lines = content if isinstance(content, dict) else {"": content}
        return cls({key: parse(Line, line, f"{FILE}: {key}") for key, line in lines.items()})

    def write(self, root: Path = Path()) -> None:
        """Write them, one line of text each."""
        lines = (f"{json.dumps(key)}: {canonical_json(line)}" for key, line in sorted(self.lines.items()))
        write_text(root / FILE, "{\n" + ",\n".join(lines) + "\n}\n")

    def generation(self, key: str, digest: str) -> str:
        """Return the digest by which Snakemake knows this one."""
        line = self.lines.get(key)
        return line.generation if line and digest in line.accepted else digest

    def accepts(self, key: str, recorded: str, here: str) -> bool:
        """Tell whether the code here stands for the code of a record."""
        line = self.lines.get(key)
        return recorded == here or (line is not None and {recorded, here} <= set(line.accepted))

    def generation_of(self, code: Code) -> str:
        """Return the generation of a job's code."""
        return self.generation(code.key, code.digest)

    def with_adopted(self, key: str, older: tuple[str, ...], here: str, evidence: Mapping[str, str]) -> "CodeLock":
        """Return a lock in which the code here also stands for older code.

        Args:
            key: rule and plug-ins.
            older: digests of records, none of them accepted for the code here yet.
            here: digest of the code here.
            evidence: of the repeated runs.
        """
        line = self.lines.get(key)
        if line is None or not {*older, here} & set(line.accepted):  # what it spoke of is of no record any more
            line = Line(generation=older[0], accepted=older[:1], evidence={})
        accepted = tuple(dict.fromkeys((*line.accepted, *older, here)))
        shown = {**line.evidence, **evidence}
        return CodeLock({**self.lines, key: line.model_copy(update={"accepted": accepted, "evidence": shown})})

    def faults(self, ledger: Ledger) -> Iterator[str]:
        """Yield what makes lines unfit to be trusted: a generation that is not accepted, no evidence, other evidence.

        A record that was made again since, or of something else, is no witness any more.
        """
        made = {entry.path.as_posix(): entry for entry in ledger.entries}
        for key, line in self.lines.items():
            if line.generation not in line.accepted:
                yield f"{FILE}: {key}: its generation is not among what was accepted"
            if not line.evidence:
                yield f"{FILE}: {key}: no repeated run shows it"
            for record, value in line.evidence.items():
                entry = made.get(record)
                if entry is None or entry.content["code"] not in line.accepted:
                    continue
                (source, found), (source_then, found_then) = witnessed(entry).split(), value.split()
                if source == source_then and found != found_then:
                    yield f"{FILE}: {key}: {record} made something else of the same"


def witnessed(entry: Entry) -> str:
    """Return short hashes of what a run was made from, by which code and at which commit, and of what it made.

    A run that is made again later, perhaps on another machine, is at another commit, and need not agree to the bit.
    """
    made_from = {name: entry.content.get(name) for name in ("spec", "code", "commit")} | {"inputs": entry.inputs}
    return f"{_short(made_from)} {_short(dict(entry.outputs))}"


def _short(value: object) -> str:
    return hashlib.sha256(canonical_json(value).encode(errors="surrogatepass")).hexdigest()[:16]
