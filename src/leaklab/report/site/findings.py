"""What came out, in sentences whose numbers are looked up in the result tables: the text of ``docs/findings.md``."""

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import RootModel

from leaklab.records.config import parse, read_yaml
from leaklab.records.errors import UserError
from leaklab.records.record import Record
from leaklab.report.judge.claims import KNOWN, Check
from leaklab.report.judge.evaluation import value_of
from leaklab.report.judge.evidence import Evidence, Indexed
from leaklab.report.judge.functions import truth
from leaklab.report.numbers.results import KNOWING, PAPER, ResultTable
from leaklab.report.numbers.words import NumberMissingError
from leaklab.report.site.answers import Answer
from leaklab.report.site.words import PAPER_ATTACKER

FINDINGS = Path("config/papers/findings.yaml")
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


@dataclass(frozen=True)
class Questions:
    """What a finding may ask: the questions of the claims, of the numbers as they are."""

    paper: str
    results: ResultTable

    @cached_property
    def names(self) -> Mapping[str, Any]:
        """Return every name of an expression."""
        evidence = Evidence(Indexed(self.results.select(paper=self.paper)), as_they_are=True)
        return {**evidence.questions(), "PAPER": PAPER, "KNOWING": KNOWING}

    def value(self, text: str) -> Any:
        """Return what an expression gives.

        Raises:
            UserError: it is none of the claims' language.
            NumberMissingError: it asks for a number that is not there.
        """
        Check(f"of {FINDINGS}", text, self.names)
        try:
            return value_of(ast.parse(text.strip(), mode="eval").body, {**KNOWN, **self.names})
        except TypeError as error:
            raise UserError(f"{FINDINGS}: {text.strip()} cannot be evaluated ({error})") from None


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
    stand_ins = f"\nStand-ins: {'; '.join(answer.substitutes)}.\n" if answer.substitutes else ""
    return f"**{answer.sentence}**\n\n{table(heads, lines)}{stand_ins}"


def answer_heads(answer: Answer) -> list[str]:
    """Return the heads of the four numbers of an answer's line: both attackers, without the defense and with it."""
    own = [f"{PAPER_ATTACKER}, no defense", f"{PAPER_ATTACKER}, {answer.defense}"]
    return [*own, "strongest attacker, no defense", f"attacker who knows {answer.defense}"]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
