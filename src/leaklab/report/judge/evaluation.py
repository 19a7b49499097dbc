"""Evaluate an expression of the claims' language by walking its tree; nothing is ever handed to the interpreter."""

import ast
import operator
from collections.abc import Iterator, Mapping
from typing import Any

from leaklab.report.judge.functions import every, some, truth
from leaklab.report.judge.intervals import Comparison, compare

Names = Mapping[str, Any]
ARITHMETIC: dict[type[ast.operator], Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}  # fmt: skip
SYMBOLS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.In: "in",
    ast.NotIn: "not in",
}  # fmt: skip


def value_of(node: ast.expr, names: Names) -> Any:
    """Return the value of an expression.

    Raises:
        NumberMissingError: a number that it needs is missing.
        TypeError: it combines values that do not go together.
    """
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return names[node.id]
        case ast.Tuple():
            return tuple(value_of(part, names) for part in node.elts)
        case ast.List():
            return [value_of(part, names) for part in node.elts]
        case ast.Set():
            return {value_of(part, names) for part in node.elts}
        case ast.Subscript():
            return value_of(node.value, names)[_place(node.slice, names)]
        case ast.Call():
            return _call(node, names)
        case ast.GeneratorExp() | ast.ListComp():
            return list(_elements(node, names))
        case ast.SetComp():
            return set(_elements(node, names))
        case _:
            return _operation(node, names)


def comparisons_of(node: ast.Compare, names: Names) -> Iterator[Comparison]:
    """Yield the comparisons of a chain such as ``a < b < c``."""
    left = value_of(node.left, names)
    for symbol, right_node in zip(node.ops, node.comparators, strict=True):
        right = value_of(right_node, names)
        yield compare(SYMBOLS[type(symbol)], left, right)
        left = right


def rounds_of(node: ast.GeneratorExp | ast.ListComp | ast.SetComp, names: Names) -> Iterator[dict[str, Any]]:
    """Yield what a loop binds in each of its rounds."""
    yield from _rounds(node.generators, names, {})


def _elements(node: ast.GeneratorExp | ast.ListComp | ast.SetComp, names: Names) -> Iterator[Any]:
    for bound in rounds_of(node, names):
        yield value_of(node.elt, {**names, **bound})


def _rounds(loops: list[ast.comprehension], names: Names, bound: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if not loops:
        yield bound
        return
    for value in value_of(loops[0].iter, {**names, **bound}):
        inner = {**bound, **_bound(loops[0].target, value)}
        if all(plain(value_of(test, {**names, **inner})) for test in loops[0].ifs):
            yield from _rounds(loops[1:], names, inner)


def _bound(target: ast.expr, value: Any) -> dict[str, Any]:
    if isinstance(target, ast.Name):
        return {target.id: value}
    if not isinstance(target, ast.Tuple | ast.List):
        raise TypeError(f"a loop cannot bind {ast.unparse(target)}")
    found: dict[str, Any] = {}
    for part, own in zip(target.elts, value, strict=True):
        found |= _bound(part, own)
    return found


def plain(value: Any) -> bool:
    """Return a condition that chooses what is looked at; measured numbers may not choose.

    Raises:
        TypeError: it is not true or false, or it depends on where a number lies within its interval.
    """
    sure = truth(value)
    if not sure.decided:
        raise TypeError("a measured number decides what is looked at")
    return sure.surely


def _place(node: ast.expr, names: Names) -> Any:
    if not isinstance(node, ast.Slice):
        return value_of(node, names)
    return slice(*(None if end is None else value_of(end, names) for end in (node.lower, node.upper, node.step)))


def _call(node: ast.Call, names: Names) -> Any:
    function = value_of(node.func, names)
    if not callable(function):
        raise TypeError(f"{ast.unparse(node.func)} is no function")
    named = {str(keyword.arg): value_of(keyword.value, names) for keyword in node.keywords}
    return function(*(value_of(argument, names) for argument in node.args), **named)


def _operation(node: ast.expr, names: Names) -> Any:
    match node:
        case ast.BinOp():
            return ARITHMETIC[type(node.op)](value_of(node.left, names), value_of(node.right, names))
        case ast.UnaryOp(op=ast.Not()):
            return ~truth(value_of(node.operand, names))
        case ast.UnaryOp():
            return -value_of(node.operand, names)
        case ast.BoolOp():
            join = every if isinstance(node.op, ast.And) else some
            return join([value_of(part, names) for part in node.values])
        case ast.Compare():
            return every([one.truth for one in comparisons_of(node, names)])
        case ast.IfExp():
            return value_of(node.body if plain(value_of(node.test, names)) else node.orelse, names)
        case _:
            raise TypeError(f"{type(node).__name__} is not allowed")
