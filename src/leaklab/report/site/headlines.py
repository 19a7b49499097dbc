"""The answer of a paper: what its defense hides from the paper's attacker and from one who knows the defense."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import RootModel

from leaklab.records.config import parse, read_yaml
from leaklab.records.errors import UserError
from leaklab.records.record import Record, Scalar
from leaklab.report.numbers.results import (
    AS_DESCRIBED,
    ASIDE,
    KNOWING,
    PAPER,
    UNMARKED,
    ResultRow,
    ResultTable,
    matches,
)

HEADLINES = Path("config/papers/headlines.yaml")
HIDDEN = 0.5
"""Protection that is left from which the data count as hidden."""
SHARES = ("recovery", "correct", "rouge")
"""What the names of metrics hold that are shares, shown in percent."""


class HeadlineLine(Record):
    """One attack: where its numbers stand.

    Attributes:
        attack: what was attacked by whom, for readers.
        hides: what the defense is made to hide from it, in words.
        item: whose result table has the numbers.
        metric: of the numbers.
        shown: the metric in words.
        row: keys that all of its rows have.
        undefended: further keys without defense.
        defended: further keys with it.
        guess: further keys of the guess that needs no update, beside those without defense.
        guess_is: that guess in words.
    """

    attack: str
    hides: str
    item: str
    metric: str
    shown: str
    row: dict[str, Scalar]
    undefended: dict[str, Scalar]
    defended: dict[str, Scalar]
    guess: dict[str, Scalar]
    guess_is: str


class Headline(Record):
    """What stands first on a paper's pages.

    Attributes:
        defense: its name.
        lines: the attacks.
    """

    defense: str
    lines: tuple[HeadlineLine, ...]


class _Headlines(RootModel[dict[str, Headline]]):
    """Paper -> its headline."""


@dataclass(frozen=True)
class AnswerLine:
    """One attack with its numbers.

    Attributes:
        of: what was declared of it.
        page: name of the item's page.
        unit: of the numbers.
        undefended: what the strongest attacker reads without defense.
        paper: what the paper's attacker reads under the defense.
        knowing: what the attacker reads who knows the defense.
        guess: the same number for a guess that needs no update.
        n: how many images or sentences stand behind ``undefended``.
        substitutes: stand-ins behind the numbers.
    """

    of: HeadlineLine
    page: str
    unit: str
    undefended: float
    paper: float
    knowing: float
    guess: float
    n: int | None
    substitutes: tuple[str, ...]

    def left(self, value: float) -> float:
        """Return how much protection a number leaves: 0 as without defense, 1 as a guess (or worse than it)."""
        whole = self.guess - self.undefended
        return min(1.0, max(0.0, (value - self.undefended) / whole)) if whole else 0.0

    def shown(self, value: float) -> str:
        """Return one of the numbers with its unit."""
        return shown_value(value, self.unit, self.of.metric)


@dataclass(frozen=True)
class Answer:
    """The sentence and the lines below it."""

    sentence: str
    lines: tuple[AnswerLine, ...]

    @property
    def substitutes(self) -> tuple[str, ...]:
        """Every stand-in behind the numbers, once."""
        return tuple(dict.fromkeys(text for line in self.lines for text in line.substitutes))


def load_headlines(path: Path = HEADLINES) -> Mapping[str, Headline]:
    """Return paper -> headline; empty where there is no such file.

    Raises:
        UserError: the file is wrong.
    """
    return parse(_Headlines, read_yaml(path), path).root if path.is_file() else {}


def answer(paper: str, headline: Headline, results: ResultTable) -> Answer | None:
    """Return the answer from a scale's results; None where no line has all of its numbers.

    Raises:
        UserError: a line names several numbers.
    """
    found = [_line(paper, line, results) for line in headline.lines]
    lines = tuple(line for line in found if line is not None)
    return Answer(_sentence(headline, lines), lines) if lines else None


def shown_value(value: float, unit: str, metric: str) -> str:
    """Return a number for readers: ``17.8 dB``, ``74 %``, ``0.0000057``."""
    if unit in ("dB", "%"):
        return f"{value:.1f} {unit}"
    if any(word in metric for word in SHARES):
        return f"{100 * value:.0f} %"
    return f"{Decimal(f'{value:.2g}'):f}{unit and f' {unit}'}"


def _line(paper: str, line: HeadlineLine, results: ResultTable) -> AnswerLine | None:
    rows = results.select(paper=paper, item=line.item, metric=line.metric, variant=AS_DESCRIBED)
    places = {
        "undefended": (KNOWING, line.undefended),
        "paper": (PAPER, line.defended),
        "knowing": (KNOWING, line.defended),
        "guess": (UNMARKED, {**line.undefended, **line.guess}),
    }
    found = {name: _only(line, rows.select(attackers=(who,)), keys) for name, (who, keys) in places.items()}
    if any(row is None for row in found.values()):
        return None
    known = {name: row for name, row in found.items() if row is not None}
    table = ResultTable(tuple(known.values()))
    values = {name: row.value for name, row in known.items() if row.value is not None}
    first = known["undefended"]
    return AnswerLine(line, f"{paper}-{line.item}", first.unit, n=first.n, substitutes=table.substitutes(), **values)


def _only(line: HeadlineLine, rows: ResultTable, keys: Mapping[str, Any]) -> ResultRow | None:
    wanted = {**line.row, **keys}
    found = [
        row for row in rows.rows if matches(row.row, wanted) and row.aside == tuple(key for key in ASIDE if key in keys)
    ]
    if len(found) > 1:
        raise UserError(f"{HEADLINES}: {line.item}: {line.metric} of {wanted} names {len(found)} numbers: add a key")
    return found[0] if found and found[0].value is not None else None


def _sentence(headline: Headline, lines: tuple[AnswerLine, ...]) -> str:
    paper = sum(line.left(line.paper) >= HIDDEN for line in lines)
    knowing = sum(line.left(line.knowing) >= HIDDEN for line in lines)
    begin = f"{headline.defense} hides {' and '.join(dict.fromkeys(line.of.hides for line in lines))} from"
    if len(lines) == 1:
        who = ("no", "the")
        return f"{begin} {who[paper]} attacker of the paper, and from {who[knowing]} attacker who knows the defense."
    everybody = len(lines)
    return f"{begin} {_of(paper, everybody)}, and from {_count(knowing, everybody)} of those who know the defense."


def _of(number: int, everybody: int) -> str:
    if number in (0, everybody):
        everyone = "both" if everybody == 2 else f"all {everybody}"
        return f"{everyone if number else 'none'} of the paper's attackers"
    return f"{number} of the paper's {everybody} attackers"


def _count(number: int, everybody: int) -> str:
    return "all" if number == everybody else str(number or "none")
