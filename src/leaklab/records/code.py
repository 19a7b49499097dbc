"""Digest of the code that a step runs: syntax trees of every module of ours that it imports.

Comments, docstrings and formatting do not count, nor do modules that the step never imports: a checkout, a comment
or another step's edit reruns nothing, a changed line of its own does.
"""

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2]
PACKAGE = "leaklab"


def digest(modules: Iterable[str], command: str = "") -> str:
    """Return 16 hex digits for modules and everything of ours that they import, and for the command that runs them."""
    reached: set[str] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module not in reached:
            reached.add(module)
            waiting.extend(_imports(module))
            # importing a.b.c runs the __init__.py of a and of a.b too
            waiting.extend(filter(None, [module.rpartition(".")[0]]))
    text = "\n".join([*(f"{module} {_fingerprint(module)}" for module in sorted(reached)), command])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _file(module: str) -> Path | None:
    path = SOURCE / Path(*module.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


@cache
def _tree(module: str) -> ast.Module:
    file = _file(module)
    return ast.parse(file.read_text(encoding="utf-8")) if file else ast.Module(body=[], type_ignores=[])


@cache
def _imports(module: str) -> tuple[str, ...]:
    found: set[str] = set()
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return tuple(sorted(name for name in found if name.split(".")[0] == PACKAGE and _file(name)))


@cache
def _fingerprint(module: str) -> str:
    tree = _tree(module)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            _drop_docstring(node)
    return hashlib.sha256(_shape(tree).encode()).hexdigest()


def _shape(value: object) -> str:
    """Return a syntax tree as text that is the same in every Python version.

    ``ast.dump`` is not: versions differ in optional fields and in how empty ones are shown.
    """
    if isinstance(value, ast.AST):
        fields = (f"{name}={_shape(inner)}" for name, inner in ast.iter_fields(value) if inner not in (None, []))
        return f"{type(value).__name__}({','.join(fields)})"
    if isinstance(value, list):
        return f"[{','.join(map(_shape, value))}]"
    return repr(value)


def _drop_docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    first = node.body[0] if node.body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        node.body = node.body[1:]
