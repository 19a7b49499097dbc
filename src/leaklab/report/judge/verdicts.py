"""What the results say about a claim: the five words, the numbers behind them, and their files."""

import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from leaklab.records import files
from leaklab.report.judge.claims import Claim
from leaklab.report.numbers.results import DRAW_PREFIX, RowKeys
from leaklab.report.numbers.words import NONE

VerdictName = Literal["reproduced", "not reproduced", "undecided", "no premise", "not run"]
SIGNS: dict[VerdictName, str] = {
    "reproduced": "✓", "not reproduced": "✗", "undecided": "≈", "no premise": "∅", "not run": NONE,
}  # fmt: skip
"""The five words, each with the sign that stands beside it."""
HOLDS, FAILS = "holds", "fails"
"""What the draws of a partition say of a claim."""
HEADER = (
    *("id", "paper", "item", "about", "verdict", "sentence", "needed", "found", "margin", "margin_low", "margin_high"),
    *("reason", "knowing_verdict", "knowing_sentence", "holds", "draws", "fails_for", "substitutes", "statement"),
    "evidence",
)


@dataclass(frozen=True)
class Fact:
    """One number that a verdict rests on."""

    item: str
    row: RowKeys
    metric: str
    value: float
    attacker: str = ""


@dataclass(frozen=True)
class Sides:
    """The two sides of the comparison that a verdict hangs on, in the unit of the claim's sentence.

    Attributes:
        relation: what was asked, in words: ``at most``.
        needed: the side that it is measured against; None for a capped cell.
        found: the side that is measured; None for a capped cell.
        margin: how far it lies on the side that was asked for; negative on the other.
        margin_low: lower end of the margin's 95 % interval; None where nothing bounds it.
        margin_high: upper end of it.
    """

    relation: str
    needed: float | None
    found: float | None
    margin: float | None
    margin_low: float | None = None
    margin_high: float | None = None


@dataclass(frozen=True)
class Frequency:
    """How often a claim holds over the draws of the partition.

    Attributes:
        holds: number of draws in which it holds.
        draws: number of draws in which it could be asked.
        fails_for: draws in which it does not hold, e.g. ``partition-seed=3``.
        not_run: draws in which a number is missing.
        tie: how far a comparison may lie on the other side and still hold, in its own unit.
        decided: ``holds`` where the interval of each comparison's mean margin over the draws lies above minus the tie,
            ``fails`` where one lies below; else empty.
    """

    holds: int
    draws: int
    fails_for: tuple[str, ...] = ()
    not_run: tuple[str, ...] = ()
    tie: float = 0.0
    decided: str = ""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Frequency":
        """Return the frequency whose ``dataclasses.asdict`` was written as JSON."""
        known = {name: value for name, value in data.items() if name in cls.__dataclass_fields__}
        return cls(**{**known, "fails_for": tuple(data["fails_for"]), "not_run": tuple(data["not_run"])})

    @property
    def short(self) -> str:
        """How often it holds, without the draws' names."""
        within = f" within {self.tie:g}" if self.tie else ""
        return f"holds{within} in {self.holds} of {self.draws} partition draws"

    @property
    def mean(self) -> str:
        """What the comparisons are in the mean of the draws, where that decides; else empty."""
        within = f", ties of {self.tie:g} included" if self.tie else ""
        said = {HOLDS: f"every comparison holds{within}", FAILS: "a comparison surely fails"}.get(self.decided, "")
        return said and f"in the mean of {self.draws} partition draws {said}"

    def __str__(self) -> str:
        parts = [self.short]
        if self.fails_for:
            parts.append(f"fails for {_seeds(self.fails_for)}")
        if self.not_run:
            parts.append(f"not run for {_seeds(self.not_run)}")
        return "; ".join(parts)


@dataclass(frozen=True)
class Judgement:
    """The verdict on a claim under one attacker.

    Attributes:
        verdict: one of the five words.
        sentence: the verdict's own line for people: needed, found, margin, and the stand-ins behind it.
        reason: where the check fails, what is missing or what is in doubt.
        sides: the deciding comparison; None where its sides are no numbers.
        evidence: every number that premise and check asked for.
    """

    verdict: VerdictName
    sentence: str = ""
    reason: str = ""
    sides: Sides | None = None
    evidence: tuple[Fact, ...] = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Judgement":
        """Return the judgement whose ``dataclasses.asdict`` was written as JSON."""
        return cls(
            verdict=data["verdict"],
            sentence=data["sentence"],
            reason=data["reason"],
            sides=Sides(**data["sides"]) if data["sides"] else None,
            evidence=tuple(Fact(**fact) for fact in data["evidence"]),
        )


@dataclass(frozen=True)
class Verdict:
    """What the results say about a claim.

    Attributes:
        id: the claim.
        judgement: under the attacker of the paper, or where no attacker is involved.
        substitutes: stand-ins behind these numbers.
        frequency: over the partition draws, where the claim has a check for them and draws exist.
        knowing: under the strongest of all attackers that were run, where more than one was.
    """

    id: str
    judgement: Judgement
    substitutes: tuple[str, ...] = ()
    frequency: Frequency | None = None
    knowing: Judgement | None = None

    @property
    def verdict(self) -> VerdictName:
        """The word under the paper's attacker."""
        return self.judgement.verdict

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Verdict":
        """Return the verdict whose ``dataclasses.asdict`` was written as JSON."""
        return cls(
            id=data["id"],
            judgement=Judgement.from_json(data["judgement"]),
            substitutes=tuple(data["substitutes"]),
            frequency=Frequency.from_json(data["frequency"]) if data["frequency"] else None,
            knowing=Judgement.from_json(data["knowing"]) if data["knowing"] else None,
        )


def write_verdicts(path: Path, claims: Iterable[Claim], verdicts: Iterable[Verdict]) -> None:
    """Write ``results/<scale>/claims.csv``, one line per claim, its evidence as JSON."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(HEADER)
    writer.writerows(_line(claim, verdict) for claim, verdict in zip(claims, verdicts, strict=True))
    files.write_text(path, buffer.getvalue())


def _line(claim: Claim, verdict: Verdict) -> list[Any]:
    own, sides = verdict.judgement, verdict.judgement.sides
    numbers = [sides.needed, sides.found, sides.margin, sides.margin_low, sides.margin_high] if sides else [None] * 5
    knowing = [verdict.knowing.verdict, verdict.knowing.sentence] if verdict.knowing else ["", ""]
    frequency = verdict.frequency
    counts = [frequency.holds, frequency.draws, " ".join(frequency.fails_for)] if frequency else ["", "", ""]
    facts = json.dumps([[f.item, f.row, f.metric, f.value] for f in own.evidence], sort_keys=True)
    return [claim.id, claim.paper, claim.item, claim.about, own.verdict, own.sentence,
            *("" if number is None else number for number in numbers),
            own.reason, *knowing, *counts, "; ".join(verdict.substitutes), claim.statement, facts]  # fmt: skip


def _seeds(draws: tuple[str, ...]) -> str:
    return "partition seed " + ", ".join(draw.removeprefix(DRAW_PREFIX) for draw in draws)
