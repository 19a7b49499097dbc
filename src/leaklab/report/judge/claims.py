"""The papers' claims: what is claimed, what it is about, what has to hold first, and the check."""

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
        check_per_draw: the expression for one partition draw of a sensitivity study; empty where there is none.
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
        return self.check if self.check_per_draw == SAME else self.check_per_draw

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
