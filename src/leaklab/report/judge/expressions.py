"""Check expressions as data: a small, closed part of Python that can ask and compare, and nothing else.

A claim's check comes from a csv file, so it is never handed to the interpreter as it is: its syntax tree may hold
only the nodes and the names listed here, and it runs without builtins. It has no statement, no lambda, no import, no
f-string and no attribute but ``index`` and ``__getitem__`` of a list.
"""

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import GeneratorType
from typing import Any

from leaklab.records.errors import UserError
from leaklab.report.numbers.missing import MissingNumber, UntestableError

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
MOST_CASES_NAMED = 4
# no expression can hold this name: it is not an identifier
GUARD = ".case"


@dataclass(frozen=True)
class Outcome:
    """What came of a check that could be decided.

    Attributes:
        holds: whether it holds.
        failures: where it does not: the failing parts and, for ``all(... for x in ...)``, the failing cases.
        others: what came of the loop's other cases where some could not be tested; else empty.
    """

    holds: bool
    failures: tuple[str, ...] = ()
    others: str = ""


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
        except (SyntaxError, ValueError, MemoryError, RecursionError):  # the last two: brackets in brackets
            raise UserError(f"claim {claim}: the check is not a Python expression") from None
        _refuse_anything_else(claim, tree, {*language, *BUILTINS})
        self._parts = [_Part(node) for node in _conjuncts(tree.body)]

    def run(self, language: Mapping[str, Any]) -> Outcome:
        """Evaluate the expression.

        Args:
            language: the values of the names.

        Raises:
            UserError: the result is not a truth value, or the expression combines values that do not go together.
            UntestableError: a number is missing and nothing that could be tested fails; the message says what came of
                the cases that could be tested.
        """
        names = {"__builtins__": {}, GUARD: _guarded, **BUILTINS, **language}
        missing: UntestableError | None = None
        try:
            for part in self._parts:
                try:
                    cases = part.cases(names)
                except UntestableError as error:
                    missing = missing or error
                    continue
                if cases.failing:
                    return Outcome(False, tuple(cases.failing), cases.others())
                if cases.untested:
                    missing = missing or UntestableError(cases.others())
        except (TypeError, AttributeError) as error:
            raise UserError(f"claim {self._claim}: the check cannot be evaluated ({error})") from None
        if missing is not None:
            raise missing
        return Outcome(True)


@dataclass
class _Cases:
    """The cases of one part by what came of them; a part that is no loop has one nameless case at most."""

    failing: list[str]
    holding: list[str]
    untested: dict[str, list[str]]

    def others(self) -> str:
        """Return what came of the cases that do not fail, where some could not be tested."""
        if not self.holding and not self.failing and len(self.untested) == 1:
            return next(iter(self.untested))  # the same for all cases
        parts = [f"holds for {_some(self.holding)}"] if self.holding and self.untested else []
        for reason, cases in self.untested.items():
            parts.append(f"not testable for {_some(cases)}: {reason}" if any(cases) else reason)
        return "; ".join(parts)


class _Part:
    """One operand of the outermost ``and``; ``all(... for ...)`` is taken apart to see where it fails."""

    def __init__(self, node: ast.expr):
        self._text = ast.unparse(node)
        loop = _loop_of_all(node)
        self._names = _loop_names(loop) if loop is not None else None
        if loop is not None:
            loop.elt = _guarded_element(loop.elt)
        operands = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        self._operands = [compile(ast.Expression(operand), "<check>", "eval") for operand in operands]
        self._code = compile(ast.fix_missing_locations(ast.Expression(loop or node)), "<check>", "eval")

    def cases(self, names: dict[str, Any]) -> _Cases:
        # the tree holds only what NODES lists and a guard of ours, and names has no builtins but ours
        value = eval(self._code, names)  # noqa: S307
        if self._names is not None:
            return _cases_of(value, self._names)
        if not isinstance(value, bool):
            raise TypeError(f"it gives {value!r}, not true or false")
        return _Cases([] if value else [self._text + self._sides(names)], [], {})

    def _sides(self, names: dict[str, Any]) -> str:
        """Return the values of a failing comparison's sides, where they are numbers."""
        values = [eval(code, names) for code in self._operands]  # noqa: S307
        numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
        return (
            f" (with {', '.join(format(value, '.4g') for value in numbers)})" if len(numbers) == len(values) > 0 else ""
        )


def _guarded_element(element: ast.expr) -> ast.expr:
    """Return an element that gives its missing number as a value, so that one such case does not end the loop."""
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Call(ast.Name(GUARD, ast.Load()), [ast.Lambda(nothing, element)], [])


def _guarded(element: Callable[[], Any]) -> Any:
    try:
        return element()
    except UntestableError as missing:
        return missing


def _loop_names(loop: ast.GeneratorExp) -> list[str]:
    """Return the names that a loop binds, in the order in which they are written."""
    targets = [node for part in loop.generators for node in ast.walk(part.target)]
    return [node.id for node in targets if isinstance(node, ast.Name)]


def _cases_of(loop: "GeneratorType[Any, None, None]", names: list[str]) -> _Cases:
    """Name every case of ``all(... for ...)``; a false one decides, whatever is missing elsewhere."""
    found: list[tuple[Any, dict[str, Any]]] = []
    cases = _Cases([], [], {})
    try:
        for outcome in loop:
            bound = loop.gi_frame.f_locals if loop.gi_frame else {}
            found.append((outcome, {name: bound[name] for name in names if _is_shown(name, bound.get(name))}))
    except UntestableError as missing:  # the loop itself needs a number that is not there
        cases.untested[str(missing)] = [""]
    for (outcome, _), name in zip(found, _case_names([bound for _, bound in found]), strict=True):
        if isinstance(outcome, UntestableError):
            cases.untested.setdefault(outcome.short, []).append(name)
        else:
            (cases.holding if outcome else cases.failing).append(name or "some case")
    return cases


def _case_names(cases: list[dict[str, Any]]) -> list[str]:
    """Return the values of a loop's names: ``mnist`` for a single text, else e.g. ``dataset mnist, x=0.3``.

    Of rows only the keys are named in which the cases differ.
    """
    rows = [value for bound in cases for value in bound.values() if isinstance(value, dict)]
    same = {key for row in rows[:1] for key in row if all(other.get(key) == row[key] for other in rows)}
    return [_case_name(bound, same if len(cases) > 1 else set()) for bound in cases]


def _case_name(bound: Mapping[str, Any], same: set[str]) -> str:
    if len(bound) == 1 and isinstance(next(iter(bound.values())), str):
        return str(next(iter(bound.values())))
    return ", ".join(filter(None, (_value_text(name, value, same) for name, value in bound.items())))


def _value_text(name: str, value: Any, same: set[str]) -> str:
    if isinstance(value, dict):
        shown = {key: inner for key, inner in value.items() if key not in same}
        return ", ".join(f"{key} {str(v).lower() if isinstance(v, bool) else v}" for key, v in shown.items())
    return f"{name}={format(value, '.4g') if isinstance(value, float) else repr(value)}"


def _some(cases: list[str]) -> str:
    named = ("; " if any(", " in case for case in cases) else ", ").join(cases[:MOST_CASES_NAMED])
    return f"{named} and {len(cases) - MOST_CASES_NAMED} more" if len(cases) > MOST_CASES_NAMED else named


def _is_shown(name: str, value: Any) -> bool:
    """Return whether a loop's name tells the reader which case it is; a row does even if the check ignores it."""
    return not isinstance(value, MissingNumber) and (name != "_" or isinstance(value, dict))


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
