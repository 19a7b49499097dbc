"""Small edits of a source file, each of which should make a test fail: the syntax tree says where, the text stays.

An edit replaces the text of one node, so that a mutant differs from its source in a line or two. Types, messages of
errors, decorators and assertions are left alone: what they change is no behavior.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt), ast.LtE: (ast.Lt, ast.GtE), ast.Gt: (ast.GtE, ast.Lt), ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
SIGNS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
}  # fmt: skip
LIMITS = {"min": "max", "max": "min", "any": "all", "all": "any"}
DROPPED_CALLS = {"abs", "clamp", "round", "sqrt", "square", "log", "exp"}
NOT_CHECKED = {"strict", "repr", "compare"}
ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant)
Change = tuple[str, ast.expr, ast.expr]


@dataclass(frozen=True)
class Edit:
    """One change of a source text.

    Attributes:
        kind: what was done, in words.
        place: dotted name of the class and function around it; empty in the module itself.
        line: where it begins, from 1.
        span: the bytes that are replaced, of the text in UTF-8.
        text: what stands there instead.
    """

    kind: str
    place: str
    line: int
    span: tuple[int, int]
    text: str

    def applied(self, source: str) -> str:
        """Return the source with this change."""
        content, (first, end) = source.encode(), self.span
        return (content[:first] + self.text.encode() + content[end:]).decode()

    def difference(self, source: str) -> tuple[str, str]:
        """Return the lines that go and the lines that come, each joined to one."""
        content, (first, end) = source.encode(), self.span
        start, stop = content.rfind(b"\n", 0, first) + 1, content.find(b"\n", end)
        rest = content[end:] if stop < 0 else content[end:stop]
        gone, come = content[start:first] + content[first:end] + rest, content[start:first] + self.text.encode() + rest
        return " ".join(gone.decode().split()), " ".join(come.decode().split())

    def changes(self, source: str) -> bool:
        """Return whether the module becomes another one, by its syntax tree."""
        return ast.dump(ast.parse(self.applied(source))) != ast.dump(ast.parse(source))


def edits_of(source: str) -> list[Edit]:
    """Return all edits of a source text, in its order.

    Raises:
        SyntaxError: the text is no module.
    """
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for place, (kind, old, new) in _changes_in(ast.parse(source), ""):
        assert old.end_lineno is not None and old.end_col_offset is not None  # noqa: PT018
        span = starts[old.lineno - 1] + old.col_offset, starts[old.end_lineno - 1] + old.end_col_offset
        found.append(Edit(kind, place, old.lineno, span, _text(old, new)))
    return found


def _text(old: ast.expr, new: ast.expr) -> str:
    """Return the text of a node that takes the place of another; in parentheses where it may bind less."""
    text = ast.unparse(new)
    operand = isinstance(old, ast.BinOp) and new in (old.left, old.right)
    bare = (type(new) is type(old) and not operand) or isinstance(new, ATOMS)
    return text if bare and not text.startswith("-") else f"({text})"


def _changes_in(node: ast.AST, place: str) -> Iterator[tuple[str, Change]]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        place = f"{place}.{node.name}".lstrip(".")
    if isinstance(node, ast.expr):
        yield from ((place, change) for change in _changes(node))
    if isinstance(node, ast.If) and ast.unparse(node.test) != "TYPE_CHECKING":
        yield place, ("branch dropped", node.test, ast.Constant(False))
    for child in _behaving(node):
        yield from _changes_in(child, place)


def _behaving(node: ast.AST) -> Iterator[ast.AST]:
    """Return the parts of a node that decide what the code does."""
    if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom):
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.keyword) and child.arg in NOT_CHECKED:
                continue
            if isinstance(child, ast.AST):
                yield child


def _changes(node: ast.expr) -> Iterator[Change]:
    match node:
        case ast.Compare(left, ops, comparators):
            for number, operator in enumerate(ops):
                for other in COMPARISONS[type(operator)]:
                    flipped = [*ops[:number], other(), *ops[number + 1 :]]
                    yield "comparison flipped", node, ast.Compare(left, flipped, comparators)
        case ast.BinOp(left, operator, right) if type(operator) in SIGNS and not _of_text(left, right):
            yield "sign", node, ast.BinOp(left, SIGNS[type(operator)](), right)
            yield "term dropped", node, left
            if isinstance(operator, ast.Add | ast.Mult):
                yield "term dropped", node, right
        case ast.UnaryOp(ast.USub(), operand) if not isinstance(operand, ast.Constant):
            yield "sign", node, operand
        case ast.UnaryOp(ast.Not(), operand):
            yield "comparison flipped", node, operand
        case ast.BoolOp(operator, values):
            other = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield "comparison flipped", node, ast.BoolOp(other, values)
            for number in range(len(values)):
                rest = [*values[:number], *values[number + 1 :]]
                yield "branch dropped", node, rest[0] if len(rest) == 1 else ast.BoolOp(operator, rest)
        case ast.IfExp(_, body, orelse):
            yield "branch dropped", node, body
            yield "branch dropped", node, orelse
        case ast.Constant() | ast.Slice() | ast.Subscript():
            yield from _changes_of_numbers(node)
        case ast.Call():
            yield from _changes_of_calls(node)


def _changes_of_numbers(node: ast.expr) -> Iterator[Change]:
    match node:
        case ast.Constant(bool(value)):
            yield "constant", node, ast.Constant(not value)
        case ast.Constant(int(value)):
            yield "off by one", node, ast.Constant(value + 1)
            if value:
                yield "off by one", node, ast.Constant(value - 1)
        case ast.Constant(float(value)):
            yield "constant", node, ast.Constant(2 * value if value else 1.0)
        case ast.Subscript(_, ast.Slice(lower, upper)):
            for end in (lower, upper):
                if end is not None and not isinstance(end, ast.Constant):
                    yield "off by one", end, ast.BinOp(end, ast.Add(), ast.Constant(1))


def _changes_of_calls(node: ast.Call) -> Iterator[Change]:
    match node:
        case ast.Call(ast.Attribute(value, name)) if name in DROPPED_CALLS and not _is_module(value):
            yield "call dropped", node, value
        case ast.Call(ast.Name(name), arguments, named) if name in LIMITS:
            yield "comparison flipped", node, ast.Call(ast.Name(LIMITS[name]), arguments, named)
    arguments = node.args
    plain = len(arguments) > 1 and not any(isinstance(one, ast.Starred) for one in arguments[:2])
    if plain and ast.unparse(node.func) not in ("isinstance", "zip"):
        swapped = [arguments[1], arguments[0], *arguments[2:]]
        yield "arguments swapped", node, ast.Call(node.func, swapped, node.keywords)


def _is_module(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id in ("torch", "math", "np", "F")


def _of_text(*sides: ast.expr) -> bool:
    return any(isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
               for side in sides)  # fmt: skip
