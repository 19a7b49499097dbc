"""Pieces of Markdown that the README of a scale, the project's README and the findings share."""

from collections.abc import Iterable, Sequence

from leaklab.report.site.answers import Answer
from leaklab.report.site.words import PAPER_ATTACKER


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
