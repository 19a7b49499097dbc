"""Adoptions: which code stands for which older code, and the repeated runs that show it.

``leaklab adopt`` writes them (``planning/adopt.py``). Rules give Snakemake the oldest digest that today's code stands
for, so that a refactoring reruns nothing; records keep the digest of the code that really ran.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from leaklab.planning.code import RULE_OF_STAGE, code_of, code_of_rule, modules_of, modules_of_rule
from leaklab.records.canonical import canonical_json
from leaklab.records.config import parse
from leaklab.records.files import read_json, write_json
from leaklab.records.ids import stage_of
from leaklab.records.ledger import Ledger
from leaklab.records.record import Record
from leaklab.records.specs import Spec

FILE = Path("results/adopted.json")


class Evidence(Record):
    """One run that was repeated with the same bytes.

    Attributes:
        record: path of the record of the run that was repeated.
        old, commit: digest and commit of the code that made it.
        new: digest of the code that repeated it.
        parts: what the run exercised: its plug-ins, renderer, reader.
        outputs: path -> SHA-256, the same for both.
        timed: metrics in them that are wall times by declaration, and so were left out of the comparison.
    """

    record: str
    rule: str
    old: str
    new: str
    commit: str
    parts: tuple[str, ...]
    outputs: dict[str, str]
    timed: tuple[str, ...] = ()
    seconds: float = 0.0


class Pair(Record):
    """Code that stands for older code, for the jobs of one rule with the same plug-ins.

    Attributes:
        modules: what the jobs start from (``planning/code.py::modules_of``).
        new: digest of the code that stands for the others.
        oldest: digest that Snakemake is given.
        old: digest of the records that it was adopted for.
        commits: the commits at which these were made.
        parts: what had to be repeated for it.
    """

    rule: str
    modules: tuple[str, ...]
    new: str
    oldest: str
    old: str
    commits: tuple[str, ...]
    parts: tuple[str, ...]

    def shown_by(self, evidence: Evidence, part: str) -> bool:
        """Tell whether a repeated run speaks for one part: same rule, and made by the same older code."""
        same_code = evidence.old == self.old or evidence.commit in self.commits
        return evidence.rule == self.rule and part in evidence.parts and same_code

    def unshown(self, evidence: Iterable[Evidence]) -> Iterator[str]:
        """Yield the parts that no repeated run speaks for."""
        found = list(evidence)
        for part in self.parts:
            if not any(self.shown_by(one, part) for one in found):
                yield part


class Adoption(Record):
    """One run of ``leaklab adopt``.

    Attributes:
        commit: of the new code.
        date: when it was adopted, UTC.
        machine: platform, device and package versions that repeated the runs.
        seal: SHA-256 of everything else in it.
    """

    commit: str
    date: str
    machine: dict[str, str]
    pairs: tuple[Pair, ...]
    evidence: tuple[Evidence, ...]
    seal: str = ""

    def sealed(self) -> "Adoption":
        """Return it with its seal."""
        return self.model_copy(update={"seal": self._digest()})

    def faults(self, ledger: Ledger) -> Iterator[str]:
        """Yield what makes it unfit to be trusted."""
        where = f"{FILE}: adoption at commit {self.commit[:10]}"
        if self.seal != self._digest():
            yield f"{where}: changed since it was written"
        for pair in self.pairs:
            for part in pair.unshown(self.evidence):
                yield f"{where}: no repeated run shows {part} for {pair.rule} by code {pair.new}"
        made = {str(entry.path): entry for entry in ledger.entries}
        for one in self.evidence:
            entry = made.get(one.record)
            if entry and (entry.content["code"], entry.content.get("commit") or "") == (one.old, one.commit):
                for path, value in one.outputs.items():
                    if entry.outputs.get(path) != value:
                        yield f"{where}: {path} is not what {one.record} recorded"

    def _digest(self) -> str:
        content = canonical_json(self.model_copy(update={"seal": ""}))
        return hashlib.sha256(content.encode(errors="surrogatepass")).hexdigest()


class _Adoptions(Record):
    adoptions: tuple[Adoption, ...] = ()


class Code(str):
    """A digest of code that Snakemake takes for the one that it stands for.

    Snakemake compares ``repr`` of a parameter with that of the last run, and puts ``str`` into the command line: so a
    job whose code was adopted is not run again, and a job that runs records the code that it runs with.
    """

    oldest: str

    def __new__(cls, digest: str, oldest: str) -> "Code":
        """Make the digest that shows itself as ``oldest``."""
        made = super().__new__(cls, digest)
        made.oldest = oldest
        return made

    def __repr__(self) -> str:
        """Return the representation of the digest that it stands for."""
        return repr(self.oldest)


@dataclass(frozen=True)
class Adopted:
    """All adoptions of a checkout, oldest first."""

    adoptions: tuple[Adoption, ...] = ()

    @classmethod
    def load(cls, root: Path = Path()) -> "Adopted":
        """Read them; none where nothing was adopted yet.

        Raises:
            UserError: the file is damaged.
        """
        file = root / FILE
        return cls(parse(_Adoptions, read_json(file), FILE).adoptions) if file.is_file() else cls()

    def write(self, root: Path = Path()) -> None:
        """Write them."""
        write_json(root / FILE, _Adoptions(adoptions=self.adoptions).model_dump(mode="json"))

    def stands_for(self, rule: str, modules: tuple[str, ...], digest: str) -> list[Adoption]:
        """Return the adoptions that speak of a digest."""
        return [adoption for adoption in self.adoptions if self._pairs(adoption, rule, modules, digest)]

    def same(self, rule: str, modules: tuple[str, ...], digest: str) -> set[str]:
        """Return all digests that stand for the same code as this one, itself included."""
        pairs = [pair for one in self.adoptions for pair in self._pairs(one, rule, modules, digest)]
        return {digest}.union(*({pair.new, pair.oldest, pair.old} for pair in pairs))

    def oldest(self, rule: str, modules: tuple[str, ...], digest: str) -> str:
        """Return the digest that Snakemake knows this one by."""
        found = [pair for one in self.adoptions for pair in self._pairs(one, rule, modules, digest)]
        return found[0].oldest if found else digest

    def code_of(self, spec: Spec) -> Code:
        """Return the code digest of a run as a rule's parameter."""
        digest = code_of(spec)
        return Code(digest, self.oldest(RULE_OF_STAGE[stage_of(spec)], modules_of(spec), digest))

    def code_of_rule(self, rule: str) -> Code:
        """Return the code digest of a step without plug-ins as a rule's parameter."""
        digest = code_of_rule(rule)
        return Code(digest, self.oldest(rule, modules_of_rule(rule), digest))

    def faults(self, ledger: Ledger) -> list[str]:
        """Return what makes adoptions unfit to be trusted."""
        return [fault for adoption in self.adoptions for fault in adoption.faults(ledger)]

    @staticmethod
    def _pairs(adoption: Adoption, rule: str, modules: tuple[str, ...], digest: str) -> list[Pair]:
        return [
            pair
            for pair in adoption.pairs
            if (pair.rule, pair.modules) == (rule, modules) and digest in (pair.new, pair.oldest, pair.old)
        ]
