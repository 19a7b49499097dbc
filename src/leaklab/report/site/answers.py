"""The answer of a paper: what its defense hides from the paper's attacker and from one who knows the defense.

Each attacker is held against his own result without the defense. The sentence names the setting, the paper's attackers
and what those have who know the defense; who stands behind several lines is one attacker.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from leaklab.records.errors import UserError
from leaklab.report.judge.terms import name_in_words
from leaklab.report.numbers.results import (
    AS_DESCRIBED,
    ASIDE,
    BY,
    KNOWING,
    PAPER,
    SELECTION,
    UNMARKED,
    ResultRow,
    ResultTable,
    canonical,
    matches,
)
from leaklab.report.site.headlines import HEADLINES, Grants, Headline, HeadlineLine

HIDDEN = 0.5
"""Protection that is left from which the data count as hidden."""
SHARES = ("recovery", "correct", "rouge")
"""What the names of metrics hold that are shares, shown in percent."""
DECIBELS = "dB"


@dataclass(frozen=True)
class Pair:
    """One attacker without the defense and with it.

    Attributes:
        name: of the attack with the defense.
        undefended: what he reads without it.
        defended: what he reads with it.
        guess: the same number for the best guess that needs no update.
        better: direction in which privacy improves.
        has: what he is granted, in words.
    """

    name: str
    undefended: float
    defended: float
    guess: float
    better: str
    has: tuple[str, ...] = ()

    @property
    def left(self) -> float | None:
        """How much protection is left of him: 0 as without defense, 1 as a guess; None where he reads no more."""
        whole = self.guess - self.undefended
        if whole == 0 or (whole > 0) != (self.better == "higher"):
            return None
        return min(1.0, max(0.0, (self.defended - self.undefended) / whole))

    @property
    def hidden(self) -> bool | None:
        """Whether what he would read is hidden; None where he reads nothing without the defense either."""
        return None if self.left is None else self.left >= HIDDEN


@dataclass(frozen=True)
class AnswerLine:
    """One attack with its numbers.

    Attributes:
        of: what was declared of it.
        page: name of the item's page.
        unit: of the numbers.
        paper: the paper's attacker.
        knowing: the strongest attacker, who knows the defense.
        guess_is: the best guess, in words.
        n: how many images or sentences stand behind the undefended number.
        substitutes: stand-ins behind the numbers.
    """

    of: HeadlineLine
    page: str
    unit: str
    paper: Pair
    knowing: Pair
    guess_is: str
    n: int | None
    substitutes: tuple[str, ...]

    @property
    def guess(self) -> float:
        """The number of the best guess."""
        return self.paper.guess

    def shown(self, value: float) -> str:
        """Return one of the numbers with its unit."""
        return shown_value(value, self.unit, self.of.metric)


@dataclass(frozen=True)
class Answer:
    """The sentence and the lines below it."""

    sentence: str
    lines: tuple[AnswerLine, ...]
    defense: str = ""

    @property
    def substitutes(self) -> tuple[str, ...]:
        """Every stand-in behind the numbers, once."""
        return tuple(dict.fromkeys(text for line in self.lines for text in line.substitutes))


def answer(paper: str, headline: Headline, results: ResultTable, grants: Grants | None = None) -> Answer | None:
    """Return the answer from a scale's results; None where no line has all of its numbers.

    Raises:
        UserError: a line names several numbers, or numbers in decibels.
    """
    found = [_line(paper, line, results, grants or {}) for line in headline.lines]
    lines = tuple(line for line in found if line is not None)
    return Answer(_sentence(headline, lines), lines, headline.defense) if lines else None


def shown_value(value: float, unit: str, metric: str) -> str:
    """Return a number for readers: ``17.8 dB``, ``74 %``, ``0.0000057``."""
    if unit in (DECIBELS, "%"):
        return f"{value:.1f} {unit}"
    if any(word in metric for word in SHARES):
        return f"{100 * value:.0f} %"
    return f"{Decimal(f'{value:.2g}'):f}{unit and f' {unit}'}"


def _line(paper: str, line: HeadlineLine, results: ResultTable, grants: Grants) -> AnswerLine | None:
    rows = results.select(paper=paper, item=line.item, metric=line.metric, variant=AS_DESCRIBED)
    found = {
        (who, kind): _only(line, rows.select(attackers=(who,)), keys)
        for who in (PAPER, KNOWING)
        for kind, keys in (("undefended", line.undefended), ("defended", line.defended))
    }
    guesses = [
        row
        for name in line.guesses
        if (row := _only(line, rows.select(attackers=(UNMARKED,)), {**line.undefended, SELECTION: name}))
    ]
    if any(row is None for row in found.values()) or not guesses:
        return None
    known = {place: row for place, row in found.items() if row is not None}
    first = known[PAPER, "undefended"]
    if first.unit == DECIBELS:
        raise UserError(f"{HEADLINES}: {line.item}: a share of decibels says nothing: name another metric")
    best = (min if first.better == "higher" else max)(guesses, key=_value)

    def pair(who: str) -> Pair:
        defended = known[who, "defended"]
        return Pair(
            name=_name(line, defended),
            undefended=_value(known[who, "undefended"]),
            defended=_value(defended),
            guess=_value(best),
            better=first.better,
            has=_granted(line, defended, grants),
        )

    return AnswerLine(
        of=line,
        page=f"{paper}-{line.item}",
        unit=first.unit,
        paper=pair(PAPER),
        knowing=pair(KNOWING),
        guess_is=name_in_words(str(best.row[SELECTION])),
        n=first.n,
        substitutes=ResultTable((*known.values(), best)).substitutes(),
    )


def _name(line: HeadlineLine, row: ResultRow) -> str:
    return name_in_words(str(row.row[BY])) if BY in row.row else line.attacker


def _granted(line: HeadlineLine, row: ResultRow, grants: Grants) -> tuple[str, ...]:
    """Return what an attacker has beside the update, in words."""
    labels, public = grants.get((row.paper, row.item, canonical(row.row), row.attacker), (False, ""))
    of_same = public.rpartition(" ")[2].startswith(line.dataset)
    images = "public images of the same data set" if of_same else f"public images: {public}"
    return (*(["labels granted"] if labels else []), *([images] if public else []))


def _value(row: ResultRow) -> float:
    return row.value or 0.0


def _only(line: HeadlineLine, rows: ResultTable, keys: Mapping[str, Any]) -> ResultRow | None:
    wanted = {**line.row, **keys}
    found = [
        row for row in rows.rows if matches(row.row, wanted) and row.aside == tuple(key for key in ASIDE if key in keys)
    ]
    if len(found) > 1:
        raise UserError(f"{HEADLINES}: {line.item}: {line.metric} of {wanted} names {len(found)} numbers: add a key")
    return found[0] if found and found[0].value is not None else None


def _sentence(headline: Headline, lines: tuple[AnswerLine, ...]) -> str:
    """Return what is hidden from whom: of each kind of data the paper's attackers, then those who know the defense."""
    begin = f"With {headline.setting}, {headline.defense} hides "
    kinds = list(dict.fromkeys(line.of.hides for line in lines))
    told = [_of_paper(kind, [line for line in lines if line.of.hides == kind]) for kind in kinds]
    return f"{begin}{' and '.join(told)}, and {_of_knowing(lines)}."


def _of_paper(kind: str, lines: list[AnswerLine]) -> str:
    """Return ``images from DLG (in the median), not from GGL``."""
    by_name: dict[str, list[AnswerLine]] = {}
    for line in lines:
        by_name.setdefault(f"{line.of.attacker} ({line.of.summary})", []).append(line)
    words: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    for name, own in by_name.items():
        states = {line.paper.hidden for line in own}
        for line in own if len(states) > 1 else own[:1]:
            words[line.paper.hidden].append(f"{line.of.attack} ({line.of.summary})" if len(states) > 1 else name)
    parts = [f"from {_listed(words[True])}" if words[True] else ""]
    parts.append(f"not from {_listed(words[False])}" if words[False] else "")
    parts.append(f"nothing from {_listed(words[None])}, who reads none without it" if words[None] else "")
    return f"{kind} {', '.join(filter(None, parts))}"


def _of_knowing(lines: tuple[AnswerLine, ...]) -> str:
    """Return from how many of the attackers who know the defense; who stands behind several lines is one.

    So is one attack with other settings, which a table tells apart in brackets.
    """
    hidden: dict[str, bool] = {}
    for line in lines:
        name = line.knowing.name.partition(" (")[0]
        hidden[name] = hidden.get(name, True) and line.knowing.hidden is not False
    has = list(dict.fromkeys(text for line in lines for text in line.knowing.has))
    granted = f" ({', '.join(has)})" if has else ""
    number, everybody = sum(hidden.values()), len(hidden)
    if everybody == 1:
        return f"{'' if number else 'not '}from the attacker who knows the defense{granted}"
    count = "all" if number == everybody else f"{number or 'none'} of"
    return f"from {count} the {everybody} attackers who know the defense{granted}"


def _listed(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
