"""The papers' claims: what is claimed, what it is about, what has to hold first, and the check."""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from leaklab.records import files
from leaklab.records.errors import UserError
from leaklab.report.judge.cases import Outcome, parts_of
from leaklab.report.judge.evaluation import value_of
from leaklab.report.judge.evidence import Evidence
from leaklab.report.judge.functions import CONSTANTS, FUNCTIONS
from leaklab.report.judge.indexed import Indexed
from leaklab.report.numbers.results import RESTORE, ResultTable

# Check expressions as data: a small, closed part of Python that can ask and compare, and nothing else.

KNOWN: Mapping[str, Any] = {**FUNCTIONS, **CONSTANTS}
NODES = (
    ast.Expression, ast.Constant, ast.Name, ast.Load, ast.Store, ast.Tuple, ast.List, ast.Set,
    ast.Call, ast.keyword, ast.Subscript, ast.Slice, ast.IfExp,
    ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub,
    ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv,
    ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn,
    ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.comprehension,
)  # fmt: skip
LARGEST_CONSTANT = 1_000_000


class Check:
    """One check expression, read after its tree was found harmless."""

    def __init__(self, claim: str, text: str, questions: Mapping[str, Any]):
        """Read ``text``.

        Args:
            claim: id of the claim, for messages.
            text: one Python expression.
            questions: names that the expression may use besides ``KNOWN``; their values may differ at each run.

        Raises:
            UserError: the expression is not Python, or uses anything that is not listed here.
        """
        self._claim = claim
        try:
            tree = ast.parse(text.strip(), mode="eval")
        except (SyntaxError, ValueError, MemoryError, RecursionError):  # the last two: brackets in brackets
            raise UserError(f"claim {claim}: the check is not a Python expression") from None
        _refuse_anything_else(claim, tree, {*questions, *KNOWN})
        self._tree = tree.body

    def run(self, questions: Mapping[str, Any]) -> Outcome:
        """Evaluate the expression.

        Args:
            questions: the values of the names.

        Raises:
            UserError: the result is not a truth value, or the expression combines values that do not go together.
            KeyError: a row lacks a key.
            ArithmeticError: the numbers at hand do not allow the arithmetic.
            ValueError: the same, such as the logarithm of zero.
        """
        try:
            return Outcome(tuple(parts_of(self._tree, {**KNOWN, **questions})))
        except (TypeError, AttributeError) as error:
            raise UserError(f"claim {self._claim}: the check cannot be evaluated ({error})") from None


def value_in(name: str, text: str, questions: Mapping[str, Any]) -> Any:
    """Return what an expression of the claims' language gives that is no check, such as a number.

    Args:
        name: of what asks, for messages.
        text: the expression.
        questions: names that it may use besides ``KNOWN``, with their values.

    Raises:
        UserError: it is none of the language, or combines values that do not go together.
        NumberMissingError: it asks for a number that is not there.
    """
    Check(name, text, questions)
    try:
        return value_of(ast.parse(text.strip(), mode="eval").body, {**KNOWN, **questions})
    except (TypeError, AttributeError) as error:
        raise UserError(f"claim {name}: {text.strip()} cannot be evaluated ({error})") from None


def _refuse_anything_else(claim: str, tree: ast.Expression, known: set[str]) -> None:
    nodes = list(ast.walk(tree))
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in nodes:
        problem = _problem(node, known, bound)
        if problem:
            raise UserError(f"claim {claim}: {problem} is not allowed in a check")


def _problem(node: ast.AST, known: set[str], bound: set[str]) -> str | None:
    if not isinstance(node, NODES):
        return type(node).__name__
    if isinstance(node, ast.Name):
        return _name_problem(node, known, bound)
    if isinstance(node, ast.keyword) and node.arg is None:
        return "**"
    if isinstance(node, ast.Constant):
        too_large = isinstance(node.value, int | float) and abs(node.value) > LARGEST_CONSTANT
        return f"the constant {node.value!r}" if too_large or isinstance(node.value, bytes | complex) else None
    return None


def _name_problem(node: ast.Name, known: set[str], bound: set[str]) -> str | None:
    if "__" in node.id:
        return f"the name '{node.id}'"
    if isinstance(node.ctx, ast.Store):
        return f"a new meaning of '{node.id}'" if node.id in known else None
    return None if node.id in known or node.id in bound else f"the unknown name '{node.id}'"


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
