"""The papers' claims and their verdicts."""

import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from leaklab.records import files
from leaklab.records.errors import UserError
from leaklab.report.judge.evidence import Evidence
from leaklab.report.judge.expressions import MOST_CASES_NAMED, Check
from leaklab.report.judge.tolerances import StandIns
from leaklab.report.judge.worst_case import worst_case
from leaklab.report.numbers.missing import UntestableError
from leaklab.report.numbers.results import (
    ADAPTIVE,
    ATTACKERS,
    DRAW_PREFIX,
    INDEX,
    RESTORE,
    ResultRow,
    ResultTable,
    RowKeys,
    identity,
)

VerdictName = Literal["reproduced", "not reproduced", "not testable"]
# of a curve with more points the evidence names the mean only
MOST_POINTS = 8
CLAIM_COLUMNS = ("id", "paper", "item", "statement", "check", "check_per_draw", "paper_numbers")


@dataclass(frozen=True)
class Claim:
    """One statement of a paper with an executable check.

    Attributes:
        id: e.g. ``LRP-01``.
        paper: key of the paper; the check sees this paper's results only.
        item: the item that the claim is shown with.
        statement: the claim in our words.
        check: one expression in the language of ``Evidence``.
        check_per_draw: the expression for one partition draw of a sensitivity study; empty where there is none.
        paper_numbers: what the paper prints about it.
    """

    id: str
    paper: str
    item: str
    statement: str
    check: str
    check_per_draw: str = ""
    paper_numbers: str = ""


@dataclass(frozen=True)
class Fact:
    """One number that a verdict rests on."""

    item: str
    row: RowKeys
    metric: str
    value: float
    attacker: str = ""


@dataclass(frozen=True)
class Frequency:
    """How often a claim holds over the draws of the partition.

    Attributes:
        holds: number of draws in which it holds.
        draws: number of draws in which it could be tested.
        fails_for: draws in which it does not hold, e.g. ``partition-seed=3``.
        untestable: draws in which a number is missing.
    """

    holds: int
    draws: int
    fails_for: tuple[str, ...] = ()
    untestable: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Frequency":
        """Return the frequency whose ``dataclasses.asdict`` was written as JSON."""
        return cls(data["holds"], data["draws"], tuple(data["fails_for"]), tuple(data["untestable"]))

    def __str__(self) -> str:
        parts = [f"holds in {self.holds} of {self.draws} partition draws"]
        if self.fails_for:
            parts.append(f"fails for {_seeds(self.fails_for)}")
        if self.untestable:
            parts.append(f"cannot be tested for {_seeds(self.untestable)}")
        return "; ".join(parts)


@dataclass(frozen=True)
class AdaptiveVerdict:
    """What the same check says where the attacker knows the defense.

    Attributes:
        verdict: whether the claim survives; ``not testable`` as in ``Verdict``.
        reason: one sentence.
        evidence: every number that the check asked for.
    """

    verdict: VerdictName
    reason: str
    evidence: tuple[Fact, ...] = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "AdaptiveVerdict":
        """Return the verdict whose ``dataclasses.asdict`` was written as JSON."""
        return cls(data["verdict"], data["reason"], tuple(Fact(**fact) for fact in data["evidence"]))


@dataclass(frozen=True)
class Verdict:
    """What the results say about a claim.

    Attributes:
        id: the claim.
        verdict: ``reproduced``, ``not reproduced`` or ``not testable`` (at this scale).
        reason: one sentence: where the check fails, or which number is missing, and which stand-ins it rests on.
        evidence: every number that the check asked for.
        substitutes: stand-ins behind these numbers.
        frequency: over the partition draws, where the claim has a check for them and draws exist.
        adaptive: the same for the attacker who knows the defense, where the check rests on such numbers.
    """

    id: str
    verdict: VerdictName
    reason: str
    evidence: tuple[Fact, ...] = ()
    substitutes: tuple[str, ...] = ()
    frequency: Frequency | None = None
    adaptive: AdaptiveVerdict | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Verdict":
        """Return the verdict whose ``dataclasses.asdict`` was written as JSON."""
        counts: Mapping[str, Any] | None = data["frequency"]
        adaptive: Mapping[str, Any] | None = data["adaptive"]
        return cls(
            id=data["id"],
            verdict=data["verdict"],
            reason=data["reason"],
            evidence=tuple(Fact(**fact) for fact in data["evidence"]),
            substitutes=tuple(data["substitutes"]),
            frequency=None if counts is None else Frequency.from_json(counts),
            adaptive=None if adaptive is None else AdaptiveVerdict.from_json(adaptive),
        )


def read_claims(path: Path) -> tuple[Claim, ...]:
    """Read ``config/papers/claims.csv``.

    Raises:
        UserError: the file is missing, lacks a column, or a check uses what a check may not use.
    """
    lines = files.read_cells(path, CLAIM_COLUMNS, RESTORE)
    claims = tuple(Claim(**{name: cells[name] for name in CLAIM_COLUMNS}) for _, cells in lines)
    for claim in claims:
        for text in filter(None, (claim.check, claim.check_per_draw)):
            try:
                _compiled(claim, text)
            except UserError as error:
                raise UserError(f"{path}: {error}") from None
    return claims


def judge(claim: Claim, results: ResultTable, printed: ResultTable, stand_ins: StandIns | None = None) -> Verdict:
    """Judge one claim on the results of one scale.

    Args:
        claim: the claim.
        results: all results of the scale; other papers' rows are ignored.
        printed: the printed numbers, which say what a complete table is.
        stand_ins: metrics that a claim may be judged on instead of its own.

    Raises:
        UserError: the check itself is wrong.
    """
    own = (stand_ins or StandIns()).of(claim.id)
    evidence = Evidence(results.select(paper=claim.paper), printed.select(paper=claim.paper), stand_ins=own)
    verdict, reason = _decide(claim, claim.check, evidence)
    substitutes = ResultTable(tuple(evidence.touched)).substitutes()
    if substitutes:
        reason += f"; rests on stand-ins: {', '.join(substitutes)}"
    frequency, adaptive = frequency_over_draws(claim, results), _adaptive(claim, results, printed, own)
    return Verdict(claim.id, verdict, reason, _facts(evidence), substitutes, frequency, adaptive)


def _adaptive(
    claim: Claim, results: ResultTable, printed: ResultTable, stand_ins: Mapping[str, str]
) -> AdaptiveVerdict | None:
    """Judge the claim on the worst case; None where no number that it asks for has an adaptive attacker."""
    worst = worst_case(results.select(paper=claim.paper))
    evidence = Evidence(worst, printed.select(paper=claim.paper), attackers=ATTACKERS, stand_ins=stand_ins)
    verdict, reason = _decide(claim, claim.check, evidence)
    if not any(row.attacker == ADAPTIVE for row in evidence.touched):
        return None
    return AdaptiveVerdict(verdict, reason, _facts(evidence))


def _facts(evidence: Evidence) -> tuple[Fact, ...]:
    """Return the numbers that were asked for; of a curve with many points its mean stands for all of them."""
    curves: dict[tuple[str, ...], list[ResultRow]] = {}
    for row in evidence.touched:
        own = identity(_without_index(row)) if row.is_point else identity(row.row)
        curves.setdefault((row.item, row.metric, row.attacker, own), []).append(row)
    return tuple(fact for rows in curves.values() for fact in _facts_of(rows))


def _facts_of(rows: list[ResultRow]) -> list[Fact]:
    known = [(row, row.value) for row in rows if row.value is not None]
    if len(known) <= MOST_POINTS:
        return [Fact(row.item, row.row, row.metric, value, row.attacker) for row, value in known]
    first = known[0][0]
    name = f"{first.metric}, mean of {len(known)} points"
    return [Fact(first.item, _without_index(first), name, fmean(value for _, value in known), first.attacker)]


def _without_index(row: ResultRow) -> RowKeys:
    return {key: value for key, value in row.row.items() if key != INDEX}


def frequency_over_draws(claim: Claim, results: ResultTable) -> Frequency | None:
    """Return how often the claim's ``check_per_draw`` holds, or None where there is no such check or no draw."""
    own = results.select(paper=claim.paper, item=claim.item)
    if not claim.check_per_draw or not own.draws():
        return None
    verdicts = {draw: _decide(claim, claim.check_per_draw, Evidence(own, variant=draw))[0] for draw in own.draws()}
    tested = {draw: verdict for draw, verdict in verdicts.items() if verdict != "not testable"}
    return Frequency(
        holds=sum(verdict == "reproduced" for verdict in tested.values()),
        draws=len(tested),
        fails_for=tuple(draw for draw, verdict in tested.items() if verdict == "not reproduced"),
        untestable=tuple(draw for draw in verdicts if draw not in tested),
    )


def judge_all(
    claims: Iterable[Claim], results: ResultTable, printed: ResultTable, stand_ins: StandIns | None = None
) -> tuple[Verdict, ...]:
    """Judge every claim; see ``judge``."""
    return tuple(judge(claim, results, printed, stand_ins) for claim in claims)


def write_verdicts(path: Path, claims: Iterable[Claim], verdicts: Iterable[Verdict]) -> None:
    """Write ``results/<scale>/claims.csv``, one line per claim, its evidence as JSON."""
    header = ["id", "paper", "item", "verdict", "reason", "adaptive_verdict", "adaptive_reason", "holds", "draws",
              "fails_for", "substitutes", "statement", "evidence"]  # fmt: skip
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    for claim, verdict in zip(claims, verdicts, strict=True):
        frequency = verdict.frequency
        counts = [frequency.holds, frequency.draws, " ".join(frequency.fails_for)] if frequency else ["", "", ""]
        facts = json.dumps([[f.item, f.row, f.metric, f.value] for f in verdict.evidence], sort_keys=True)
        adaptive = [verdict.adaptive.verdict, verdict.adaptive.reason] if verdict.adaptive else ["", ""]
        writer.writerow([claim.id, claim.paper, claim.item, verdict.verdict, verdict.reason, *adaptive, *counts,
                         "; ".join(verdict.substitutes), claim.statement, facts])  # fmt: skip
    files.write_text(path, buffer.getvalue())


def _compiled(claim: Claim, text: str) -> Check:
    return Check(claim.id, text, Evidence(ResultTable()).language())


def _decide(claim: Claim, text: str, evidence: Evidence) -> tuple[VerdictName, str]:
    try:
        outcome = _compiled(claim, text).run(evidence.language())
    except UntestableError as missing:
        return "not testable", str(missing)
    except KeyError as key:
        return "not testable", f"a row of the results has no key {key}"
    except (ValueError, ZeroDivisionError, IndexError, OverflowError) as error:
        # arithmetic that the numbers at hand do not allow, such as the logarithm of a gap that reached zero
        return "not testable", f"the numbers do not allow the check ({error})"
    if outcome.holds:
        return "reproduced", f"the check holds on {_count(evidence.touched)}"
    named = "; ".join(outcome.failures[:MOST_CASES_NAMED])
    left = len(outcome.failures) - MOST_CASES_NAMED
    parts = [named, f"and {left} more" if left > 0 else "", outcome.others]
    return "not reproduced", f"the check fails: {'; '.join(part for part in parts if part)}"


def _count(rows: list[Any]) -> str:
    return f"{len(rows)} number{'' if len(rows) == 1 else 's'}"


def _seeds(draws: tuple[str, ...]) -> str:
    return "partition seed " + ", ".join(draw.removeprefix(DRAW_PREFIX) for draw in draws)
