"""What came out, in sentences whose numbers are looked up in the result tables: the text of ``docs/findings.md``."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from pydantic import Field, RootModel, model_validator

from leaklab.records.config import parse, read_yaml
from leaklab.records.errors import UserError
from leaklab.records.record import Record
from leaklab.report.judge.functions import truth
from leaklab.report.judge.terms import stand_in_in_words
from leaklab.report.judge.verdicts import SIGNS, VerdictName
from leaklab.report.numbers.words import NumberMissingError
from leaklab.report.site.answers import Answer
from leaklab.report.site.headlines import PAPER_ATTACKER
from leaklab.report.site.questions import FINDINGS, Asked, Questions

NUMBER = re.compile(r"\{([^{}|]+)\|([^{}|]*)\}")
FORM = re.compile(r"[+]?\.\d[f%g]")


class Finding(Record):
    """One sentence.

    Attributes:
        says: the text, with its numbers as ``{expression | format}`` in the language of the claims.
        holds: what has to be true of the numbers; empty for a sentence that only states them.
    """

    says: str
    holds: str = ""


class _Findings(RootModel[dict[str, dict[str, tuple[Finding, ...]]]]):
    """Paper -> item -> findings."""


@dataclass(frozen=True)
class Sentence:
    """A finding with its numbers; where it cannot be written ``text`` is empty and ``why`` says why."""

    text: str
    why: str = ""


def load_findings(path: Path = FINDINGS) -> Mapping[str, Mapping[str, tuple[Finding, ...]]]:
    """Return paper -> item -> findings; empty where there is no such file.

    Raises:
        UserError: the file is wrong.
    """
    return parse(_Findings, read_yaml(path), path).root if path.is_file() else {}


def sentence_of(finding: Finding, questions: Questions) -> Sentence:
    """Return a finding with its numbers.

    Raises:
        UserError: a number's expression or format is wrong.
    """
    rest = NUMBER.sub("", finding.says)
    if "{" in rest or "}" in rest:
        raise UserError(f"{FINDINGS}: write numbers as {{expression | format}}: {finding.says}")
    try:
        if finding.holds and not truth(questions.value(finding.holds)).point:
            return Sentence("", "it no longer holds")
        return Sentence(NUMBER.sub(lambda found: _shown(questions, found[1], found[2].strip()), finding.says))
    except NumberMissingError as error:
        return Sentence("", str(error))


def _shown(questions: Questions, expression: str, form: str) -> str:
    if not FORM.fullmatch(form):
        raise UserError(f"{FINDINGS}: format {form!r} of {expression.strip()} is none of .1f, .0% and .2g")
    found = questions.value(expression)
    value = float(getattr(found, "value", found))
    if form.endswith("g"):
        return f"{Decimal(format(value, form)):f}" if abs(value) >= 1e-6 or not value else format(value, form)
    return format(value, form).replace("%", " %")


# Pieces of Markdown that the README of a scale, the project's README and the findings share.


def table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table; ``|`` in a cell is escaped."""
    rows = [heads, ["---"] * len(heads), *lines]
    return "\n".join("| " + " | ".join(_cell(text) for text in row) + " |" for row in rows) + "\n"


def answer_text(answer: Answer) -> str:
    """Return the sentence, its table, and what stands in for what."""
    heads = ["attack", *answer_heads(answer), "best guess"]
    lines = [
        (
            f"{line.of.attack} ({line.of.setting}): {line.of.shown}",
            *(line.shown(value) for value in (line.paper.undefended, line.paper.defended, line.knowing.undefended)),
            f"{line.shown(line.knowing.defended)} ({line.knowing.name})",
            f"{line.shown(line.guess)} ({line.guess_is})",
        )
        for line in answer.lines
    ]
    stand_ins = f"\nStand-ins: {'; '.join(map(stand_in_in_words, answer.substitutes))}.\n" if answer.substitutes else ""
    return f"**{answer.sentence}**\n\n{table(heads, lines)}{stand_ins}"


def answer_heads(answer: Answer) -> list[str]:
    """Return the heads of the four numbers of an answer's line: both attackers, without the defense and with it."""
    own = [f"{PAPER_ATTACKER}, no defense", f"{PAPER_ATTACKER}, {answer.defense}"]
    return [*own, "strongest attacker, no defense", f"attacker who knows {answer.defense}"]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


# Published statements that were corrected: what was said, what is said now, and why.

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
    changes: Iterable[Change], words: Mapping[str, VerdictName], answers: Mapping[str, str], asked: Asked
) -> tuple[Corrected, ...]:
    """Return the corrections with what is said now; a claim whose word is as it was is none.

    Args:
        changes: what was published.
        words: the word of each claim now.
        answers: paper -> its first sentence now.
        asked: the tables of the scale.

    Raises:
        UserError: a claim is not there, or an expression is wrong.
    """
    found = (Corrected(change.why, tuple(_statements(change, words, answers, asked))) for change in changes)
    return tuple(one for one in found if one.statements)


def _statements(
    change: Change, words: Mapping[str, VerdictName], answers: Mapping[str, str], asked: Asked
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
        yield f"It said: *{change.was}* Now: {_now(change, answers, asked)}"


def _now(change: Change, answers: Mapping[str, str], asked: Asked) -> str:
    if change.now == ANSWER:
        return answers.get(change.paper, "no answer at this scale.")
    sentence = sentence_of(Finding(says=change.now), asked.of(change.paper))
    return sentence.text or f"it cannot be said ({sentence.why})."
