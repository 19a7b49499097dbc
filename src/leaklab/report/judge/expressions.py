"""Check expressions as data: a small, closed part of Python that can ask and compare, and nothing else.

A claim's check comes from a csv file, so it is never handed to the interpreter: its syntax tree may hold only the nodes
and the names listed here, and it is evaluated by walking it. It has no statement, no lambda, no import, no f-string and
no attribute.
"""

import ast
from collections.abc import Mapping
from typing import Any

from leaklab.records.errors import UserError
from leaklab.report.judge.cases import Outcome, parts_of
from leaklab.report.judge.functions import CONSTANTS, FUNCTIONS

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
