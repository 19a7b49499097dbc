"""The papers' claims: what is claimed, what it is about, what has to hold first, and the check."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from leaklab.records import files
from leaklab.records.errors import UserError
from leaklab.report.judge.evidence import Evidence
from leaklab.report.judge.expressions import Check
from leaklab.report.judge.indexed import Indexed
from leaklab.report.numbers.results import RESTORE, ResultTable

About = Literal["protection", "attack", "utility", "theory"]
SAME = "same"
WITHIN = re.compile(r"^(?P<check>.*?)(?:\s+within\s+(?P<tie>\d+(?:\.\d+)?))?\s*$", re.DOTALL)
"""A check per draw with the tie that it declares, in the unit of the claim's sentence: ``same within 0.2``."""
CLAIM_COLUMNS = (
    *("id", "paper", "item", "about", "statement", "sentence", "premise", "premise_sentence"),
    *("check", "check_per_draw", "paper_numbers"),
)


@dataclass(frozen=True)
class Claim:
    """One statement of a paper with an executable check.

    Attributes:
        id: e.g. ``LRP-01``.
        paper: key of the paper; the check sees this paper's results only.
        item: the item that the claim is shown with.
        statement: the claim in our words.
        check: one expression in the language of ``Evidence``.
        about: what kind of thing it speaks of.
        sentence: what the check measures, for people, with its unit in brackets: ``accuracy lost [points]``.
        premise: an expression that has to hold before the check says anything; empty where none is declared.
        premise_sentence: what the premise measures, for people.
        check_per_draw: the expression for one partition draw of a sensitivity study, with a tie where it declares one;
            empty where there is none.
        paper_numbers: what the paper prints about it.
    """

    id: str
    paper: str
    item: str
    statement: str
    check: str
    about: About = "utility"
    sentence: str = ""
    premise: str = ""
    premise_sentence: str = ""
    check_per_draw: str = ""
    paper_numbers: str = ""

    @property
    def draw_check(self) -> str:
        """The expression for one partition draw; ``same`` stands for the check itself."""
        text = self._per_draw["check"] or ""
        return self.check if text == SAME else text

    @property
    def tie(self) -> float:
        """How far a comparison may lie on the other side in the mean of the draws, and still holds: a tie."""
        return float(self._per_draw["tie"] or 0.0)

    @property
    def _per_draw(self) -> dict[str, str | None]:
        found = WITHIN.match(self.check_per_draw)
        return found.groupdict() if found else {"check": self.check_per_draw, "tie": None}

    def parsed(self, text: str) -> Check:
        """Return one of the claim's expressions, ready to run.

        Raises:
            UserError: it is not an expression of the claims' language.
        """
        return Check(self.id, text, Evidence(Indexed(ResultTable())).questions())


def read_claims(path: Path) -> tuple[Claim, ...]:
    """Read ``config/papers/claims.csv``.

    Raises:
        UserError: the file is missing, lacks a column, a claim is about something else, or a check uses what a check
            may not use.
    """
    lines = files.read_cells(path, CLAIM_COLUMNS, RESTORE)
    return tuple(_claim(path, {name: cells[name] for name in CLAIM_COLUMNS}) for _, cells in lines)


def _claim(path: Path, cells: dict[str, str]) -> Claim:
    about = next((word for word in get_args(About) if word == cells["about"]), None)
    if about is None:
        words = ", ".join(get_args(About))
        raise UserError(f"{path}: claim {cells['id']}: about is {cells['about']!r}, not one of {words}")
    claim = Claim(**{**cells, "about": about})
    try:
        for text in filter(None, (claim.check, claim.premise, claim.draw_check)):
            claim.parsed(text)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return claim
