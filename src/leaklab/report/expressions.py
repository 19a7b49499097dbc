"""Check expressions as data: a small, closed part of Python that can ask and compare, and nothing else.

A claim's check comes from a csv file, so it is never handed to the interpreter as it is: its syntax tree may hold
only the nodes and the names listed here, and it runs without builtins. It has no statement, no lambda, no import, no
f-string and no attribute but ``index`` and ``__getitem__`` of a list.
"""

import ast
from collections.abc import Mapping
from types import GeneratorType
from typing import Any

from leaklab.records.errors import UserError
from leaklab.report.evidence import UntestableError

BUILTINS: dict[str, Any] = {
    function.__name__: function
    for function in (abs, all, any, bool, enumerate, float, int, len, list, max, min, range, round, set, sorted, sum,
                     tuple, zip)
}  # fmt: skip
METHODS = ("index", "__getitem__")
NODES = (
    ast.Expression, ast.Constant, ast.Name, ast.Load, ast.Store, ast.Tuple, ast.List, ast.Set, ast.Attribute,
    ast.Call, ast.keyword, ast.Subscript, ast.Slice, ast.IfExp,
    ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub,
    ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv,
    ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn,
    ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.comprehension,
)  # fmt: skip
LARGEST_CONSTANT = 1_000_000


class Check:
    """One check expression, compiled after its tree was found harmless."""

    def __init__(self, claim: str, text: str, language: Mapping[str, Any]):
        """Compile ``text``.

        Args:
            claim: id of the claim, for messages.
            text: one Python expression.
            language: names that the expression may use besides ``BUILTINS``; their values may differ at each run.

        Raises:
            UserError: the expression is not Python, or uses anything that is not listed here.
        """
        self._claim = claim
        try:
            tree = ast.parse(text.strip(), mode="eval")
        except (SyntaxError, ValueError):
            raise UserError(f"claim {claim}: the check is not a Python expression") from None
        _refuse_anything_else(claim, tree, {*language, *BUILTINS})
        self._parts = [_Part(node) for node in _conjuncts(tree.body)]

    def run(self, language: Mapping[str, Any]) -> tuple[bool, list[str]]:
        """Evaluate the expression.

        Args:
            language: the values of the names.

        Returns:
            whether it holds, and where it does not: the failing part and, for ``all(... for x in ...)``, the
            failing values of the loop's names.

        Raises:
            UserError: the result is not a truth value, or the expression combines values that do not go together.
            UntestableError: a number is missing before the expression could be found to fail.
        """
        names = {"__builtins__": {}, **BUILTINS, **language}
        try:
            for part in self._parts:
                failures = part.failures(names)
                if failures:
                    return False, failures
        except (TypeError, AttributeError) as error:
            raise UserError(f"claim {self._claim}: the check cannot be evaluated ({error})") from None
        return True, []


class _Part:
    """One operand of the outermost ``and``; ``all(... for ...)`` is taken apart to see where it fails."""

    def __init__(self, node: ast.expr):
        self._text = ast.unparse(node)
        loop = _loop_of_all(node)
        self._is_loop = loop is not None
        operands = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        self._operands = [compile(ast.Expression(operand), "<check>", "eval") for operand in operands]
        self._code = compile(ast.fix_missing_locations(ast.Expression(loop or node)), "<check>", "eval")

    def failures(self, names: dict[str, Any]) -> list[str]:
        # the tree holds only what NODES lists, and names has no builtins but ours
        value = eval(self._code, names)  # noqa: S307
        if self._is_loop:
            return _failing_cases(value)
        if not isinstance(value, bool):
            raise TypeError(f"it gives {value!r}, not true or false")
        return [] if value else [self._text + self._sides(names)]

    def _sides(self, names: dict[str, Any]) -> str:
        """Return the values of a failing comparison's sides, where they are numbers."""
        values = [eval(code, names) for code in self._operands]  # noqa: S307
        numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
        return (
            f" (with {', '.join(format(value, '.4g') for value in numbers)})" if len(numbers) == len(values) > 0 else ""
        )


def _failing_cases(loop: "GeneratorType[Any, None, None]") -> list[str]:
    """Return the values of the loop's names wherever the element is false, up to the first missing number."""
    failing = []
    try:
        for holds in loop:
            if not holds:
                bound = loop.gi_frame.f_locals if loop.gi_frame else {}
                failing.append(", ".join(f"{name}={value!r}" for name, value in bound.items() if _is_shown(name)))
    except UntestableError:
        # one false element decides, as it does for all(); without one the missing number does
        if not failing:
            raise
    return [case or "in some case" for case in failing]


def _is_shown(name: str) -> bool:
    return name.isidentifier() and name != "_"


def _conjuncts(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        return [part for value in node.values for part in _conjuncts(value)]
    return [node]


def _loop_of_all(node: ast.expr) -> ast.GeneratorExp | None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "all" and len(node.args) == 1:
        argument = node.args[0]
        return argument if isinstance(argument, ast.GeneratorExp) else None
    return None


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
    if isinstance(node, ast.Attribute) and node.attr not in METHODS:
        return f"the attribute '{node.attr}'"
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
