"""Ask the results one expression of a claim, and say in words why it has no answer."""

from dataclasses import dataclass

from leaklab.report.judge.cases import Case, Outcome
from leaklab.report.judge.claims import Claim
from leaklab.report.judge.evidence import Evidence
from leaklab.report.numbers.missing import NumberMissingError


@dataclass(frozen=True)
class Unanswered:
    """An expression without an answer.

    Attributes:
        reason: one sentence.
        missing: whether a number is missing; else the numbers that are there do not allow the arithmetic.
    """

    reason: str
    missing: bool = True


def outcome_of(claim: Claim, text: str, evidence: Evidence) -> Outcome | Unanswered:
    """Return what comes of an expression on some evidence.

    A comparison that surely fails is an answer by itself, and so are the cases at hand where others lack numbers.

    Raises:
        UserError: the expression itself is wrong.
    """
    try:
        outcome = claim.parsed(text).run(evidence.questions())
    except KeyError as key:
        return Unanswered(f"a row of the results has no key {key}")
    except (ValueError, ArithmeticError, IndexError, StopIteration) as error:
        # arithmetic that the numbers at hand do not allow, such as the logarithm of a gap that reached zero
        return Unanswered(f"the numbers do not allow the check ({error})", missing=False)
    return outcome if outcome.answers else Unanswered(outcome.lacking())


def on_tested_premise(check: Outcome, premise: Outcome) -> Outcome | Unanswered:
    """Return the check without the cases whose premise lacks a number: those that agree with it in all loops' names."""
    lacking: dict[str, NumberMissingError] = {}
    for untested in premise.absent:
        for case in check.judged:
            if _agree(case, untested) and untested.missing:
                lacking[repr(case.keys)] = untested.missing
    tested = check.without(lacking)
    return tested if tested.answers else Unanswered(tested.lacking())


def _agree(case: Case, other: Case) -> bool:
    """Return whether two cases of different expressions are about the same: their loops' values, where names agree."""
    mine, its = dict(case.keys), dict(other.keys)
    shared = mine.keys() & its.keys()
    return all(its[name] in (mine[name].values() if isinstance(mine[name], dict) else [mine[name]]) for name in shared)
