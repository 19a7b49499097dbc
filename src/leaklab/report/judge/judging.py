"""The verdict on a claim: its check on the results of one scale, its premise, its draws and its stand-ins."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean

from leaklab.report.judge.attackers import setting_of
from leaklab.report.judge.cases import Outcome
from leaklab.report.judge.claims import Claim
from leaklab.report.judge.draws import (
    Unanswered,
    frequency_over_draws,
    on_tested_premise,
    outcome_of,
    seeds_beside,
    with_draws,
    with_more_seeds,
)
from leaklab.report.judge.evidence import Evidence
from leaklab.report.judge.indexed import Indexed
from leaklab.report.judge.sentences import failures_in_words, measured_line, sides_of
from leaklab.report.judge.tolerances import StandIns
from leaklab.report.judge.verdicts import Fact, Frequency, Judgement, Verdict, VerdictName
from leaklab.report.numbers.results import (
    ATTACKERS,
    INDEX,
    PAPER,
    UNMARKED,
    ResultRow,
    ResultTable,
    RowKeys,
    identity,
)

# of a curve with more points the evidence names the mean only
MOST_POINTS = 8
DECIDED = ("reproduced", "not reproduced")
INSIDE = "the deciding difference lies inside its interval"
# the scale whose data all stand in for a paper's
EMBEDDED = "demo"
NOTHING_ABOUT_THE_PAPER = "stand-in data decide nothing about the paper"


@dataclass(frozen=True)
class Finding:
    """A word with what it rests on.

    Attributes:
        word: one of the five.
        reason: why.
        outcome: of the check, or of the premise where that decided; None where there is none.
        subject: what this outcome measures.
        by_draws: the word is that of the partition draws together, and the outcome that of the table's own deal.
    """

    word: VerdictName
    reason: str
    outcome: Outcome | None = None
    subject: str = ""
    by_draws: bool = False


def judge(
    claim: Claim,
    results: ResultTable,
    printed: ResultTable,
    stand_ins: StandIns | None = None,
    scale: str = "paper",
) -> Verdict:
    """Judge one claim on the results of one scale; see ``judge_all``."""
    return judge_all([claim], results, printed, stand_ins, scale)[0]


def judge_all(
    claims: Iterable[Claim],
    results: ResultTable,
    printed: ResultTable,
    stand_ins: StandIns | None = None,
    scale: str = "paper",
) -> tuple[Verdict, ...]:
    """Judge claims on the results of one scale.

    Args:
        claims: the claims; each sees its own paper's results only.
        results: all results of the scale.
        printed: the printed numbers, which say what a complete table is.
        stand_ins: metrics that a claim may be judged on instead of its own.
        scale: which one; at ``demo`` numbers that rest on stand-ins decide nothing.

    Raises:
        UserError: a check itself is wrong.
    """
    asked = tuple(claims)
    papers = {claim.paper for claim in asked}
    own = {paper: Indexed(with_more_seeds(results.select(paper=paper))) for paper in papers}
    print_ = {paper: printed.select(paper=paper) for paper in papers}
    chosen = stand_ins or StandIns()
    return tuple(_verdict(claim, own[claim.paper], print_[claim.paper], chosen.of(claim.id), scale) for claim in asked)


def _verdict(claim: Claim, results: Indexed, printed: ResultTable, stand_ins: Mapping[str, str], scale: str) -> Verdict:
    paper, knowing = (
        Evidence(seen, printed, attackers=attackers, stand_ins=stand_ins)
        for seen, attackers in ((results, (PAPER, UNMARKED)), (results.strongest, ATTACKERS))
    )
    frequency = frequency_over_draws(claim, results.table)
    judgement = _judgement(claim, paper, frequency, scale)
    strongest = _judgement(claim, knowing, frequency, scale)
    contested = any(setting_of(row) in results.contested for row in knowing.touched)
    return Verdict(claim.id, judgement, _substitutes(paper), frequency, strongest if contested else None)


def _judgement(claim: Claim, evidence: Evidence, frequency: Frequency | None, scale: str) -> Judgement:
    finding = _finding(claim, evidence, frequency)
    substitutes = _substitutes(evidence)
    idle = bool(substitutes) and scale == EMBEDDED and finding.word != "not run"
    word: VerdictName = "undecided" if idle and finding.word in DECIDED else finding.word
    measured = measured_line(finding.subject, finding.outcome) if finding.outcome else ""
    parts = [
        f"{frequency.mean}; in the table's own draw: {measured}" if finding.by_draws and frequency else measured,
        finding.reason if finding.word in ("not run", "undecided") else "",
        ", ".join(dict.fromkeys(filter(None, map(seeds_beside, evidence.touched)))),
        frequency.short if frequency and finding.word in (*DECIDED, "undecided") else "",
        f"on stand-ins: {', '.join(substitutes)}" if substitutes else "",
        NOTHING_ABOUT_THE_PAPER if idle else "",
    ]
    sides = sides_of(finding.outcome.deciding) if finding.outcome else None
    return Judgement(word, "; ".join(filter(None, parts)), finding.reason, sides, _facts(evidence))


def _finding(claim: Claim, evidence: Evidence, frequency: Frequency | None) -> Finding:
    """Return the word: not run before no premise before what the numbers decide."""
    check = outcome_of(claim, claim.check, evidence)
    numbers = len(evidence.touched)
    of_check = evidence.doubts_so_far()
    premise = outcome_of(claim, claim.premise, evidence) if claim.premise else Outcome(())
    for answer in (check, premise):
        if isinstance(answer, Unanswered):
            return Finding("not run" if answer.missing else "undecided", answer.reason)
    assert isinstance(check, Outcome) and isinstance(premise, Outcome)  # noqa: PT018
    tested = on_tested_premise(check, premise)
    if isinstance(tested, Unanswered):
        return Finding("not run", tested.reason)
    check = tested
    if not premise.truth.point:
        return Finding(
            "no premise", _failing("premise", premise, claim.premise_sentence), premise, claim.premise_sentence
        )
    truth = with_draws(check.truth, frequency)
    if truth.decided and premise.truth.surely:
        found = _decided(truth.surely, check, numbers, claim.sentence)
        return replace(found, by_draws=check.truth.point != truth.point or not check.truth.decided)
    doubts = _doubts(check, of_check, premise, evidence.doubts_so_far())
    if not truth.decided and frequency and check.truth.decided:
        doubts.append("the partition draws do not agree")
    return Finding("undecided", "; ".join(doubts), check, claim.sentence)


def _decided(holds: bool, check: Outcome, numbers: int, subject: str) -> Finding:
    if holds:
        said = f"the check holds on {numbers} number{'' if numbers == 1 else 's'}"
        reason = "; ".join(filter(None, (said, check.lacking())))
        return Finding("reproduced", reason, check, subject)
    return Finding("not reproduced", _failing("check", check, subject), check, subject)


def _failing(what: str, outcome: Outcome, subject: str) -> str:
    """Return ``the check fails for CIFAR-10 (found 1 %, needed above 2 %); holds for MNIST``, and what lacks."""
    if len(outcome.cases) == 1:
        return f"the {what} fails"
    failing = failures_in_words(subject, outcome)
    return "; ".join(filter(None, (f"the {what} fails for {failing}", outcome.holding(), outcome.lacking())))


def _doubts(check: Outcome, of_check: list[str], premise: Outcome, of_premise: list[str]) -> list[str]:
    """Return why the table decides nothing: what is wrong with the numbers of the part that is not decided."""
    doubts = []
    if not check.truth.decided:
        doubts += of_check or _whys(check) or [INSIDE]
    if not premise.truth.surely:
        doubts += of_premise or ["the premise lies inside its interval"]
    return list(dict.fromkeys(doubts))


def _whys(check: Outcome) -> list[str]:
    """Return why numbers that the check computed decide nothing."""
    sides = [side for part in check.made if part.margin for side in (part.margin.found, part.margin.needed)]
    return [side.why for side in sides if side.why]


def _substitutes(evidence: Evidence) -> tuple[str, ...]:
    return ResultTable(tuple(evidence.touched)).substitutes()


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
