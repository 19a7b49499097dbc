"""Ask the results one expression of a claim, and say in words why it has no answer."""

from dataclasses import dataclass

from leaklab.report.judge.cases import Outcome
from leaklab.report.judge.claims import Claim
from leaklab.report.judge.evidence import Evidence


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
    """Return what comes of an expression on some evidence; a comparison that surely fails is an answer by itself.

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
    fails = any(not case.truth.possibly for case in outcome.made)
    return Unanswered(outcome.others()) if outcome.missing and not fails else outcome
