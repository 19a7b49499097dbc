"""Published statements that were corrected: what was said, what is said now, and why.

What was said is kept as it stood. What is said now is looked up: the word of a claim in the verdicts, a paper's answer,
or a sentence with its numbers from the result tables. So a correction that is corrected again says so by itself.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, model_validator

from leaklab.records.config import parse, read_yaml
from leaklab.records.errors import UserError
from leaklab.records.record import Record
from leaklab.report.judge.verdicts import SIGNS, VerdictName
from leaklab.report.numbers.results import ResultTable
from leaklab.report.site.findings import Finding, Questions, sentence_of

CHANGES = Path("config/papers/changes.yaml")
ANSWER = "answer"


class Change(Record):
    """One reason, with the statements that it corrected.

    Attributes:
        why: what was wrong, one or two sentences.
        claims: claim -> the word that was published for it.
        paper: of the other statement.
        was: another statement as it was published; empty for none.
        now: it as it is said now: ``answer`` for the paper's first sentence, else as in ``findings.yaml``.
    """

    why: str
    claims: dict[str, VerdictName] = Field(default_factory=dict)
    paper: str = ""
    was: str = ""
    now: str = ""

    @model_validator(mode="after")
    def _says_something(self) -> "Change":
        if not self.claims and not self.was:
            raise ValueError("name claims, or a statement that was published")
        if bool(self.was) != bool(self.now and self.paper):
            raise ValueError("was, now and paper go together")
        return self


class _Changes(Record):
    """The file."""

    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Corrected:
    """A reason and its statements, each as ``what was said -> what is said now``."""

    why: str
    statements: tuple[str, ...]


def load_changes(path: Path = CHANGES) -> tuple[Change, ...]:
    """Return what was corrected; empty where there is no such file.

    Raises:
        UserError: the file is wrong.
    """
    return parse(_Changes, read_yaml(path), path).changes if path.is_file() else ()


def corrected(
    changes: Iterable[Change], words: Mapping[str, VerdictName], answers: Mapping[str, str], results: ResultTable
) -> tuple[Corrected, ...]:
    """Return the corrections with what is said now; a claim whose word is as it was is none.

    Args:
        changes: what was published.
        words: the word of each claim now.
        answers: paper -> its first sentence now.
        results: the tables of the scale.

    Raises:
        UserError: a claim is not there, or an expression is wrong.
    """
    found = (Corrected(change.why, tuple(_statements(change, words, answers, results))) for change in changes)
    return tuple(one for one in found if one.statements)


def _statements(
    change: Change, words: Mapping[str, VerdictName], answers: Mapping[str, str], results: ResultTable
) -> Iterable[str]:
    by_words: dict[tuple[VerdictName, VerdictName], list[str]] = {}
    for claim, was in change.claims.items():
        if claim not in words:
            raise UserError(f"{CHANGES}: there is no claim {claim}")
        by_words.setdefault((was, words[claim]), []).append(claim)
    for (was, now), claims in by_words.items():
        if was != now:
            yield f"{', '.join(claims)}: {SIGNS[was]} {was}, now {SIGNS[now]} {now}"
    if change.was:
        yield f"It said: *{change.was}* Now: {_now(change, answers, results)}"


def _now(change: Change, answers: Mapping[str, str], results: ResultTable) -> str:
    if change.now == ANSWER:
        return answers.get(change.paper, "no answer at this scale.")
    sentence = sentence_of(Finding(says=change.now), Questions(change.paper, results))
    return sentence.text or f"it cannot be said ({sentence.why})."
