"""What a guest's file offers, read as a syntax tree: nothing of it runs in the process that asks.

A file offers what it calls ``PLUGIN``; or the only class with a base ``Defense``, or with a method ``reconstruct``; or
the only public function whose first argument is ``gradients``, the one called ``defend`` where there are several.
"""

import ast
import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from leaklab.records.definitions import shape_of
from leaklab.records.errors import UserError

Kind = Literal["defense", "attack"]
Form = Literal["class", "function", "object"]
FUNCTION, ARGUMENTS = "defend", ("gradients", "context")
MOST_BYTES = 2_000_000
OFFERS = (
    "one class with base leaklab.Defense, one function defend(gradients) or defend(gradients, context), or "
    "one class with a method reconstruct(self, case)"
)


@dataclass(frozen=True)
class Guest:
    """What a file offers to be judged.

    Attributes:
        file: where it stands, absolute.
        offered: its name there.
        kind: what it is.
        form: how it is offered; an ``object`` is whatever ``PLUGIN`` stands for that is neither class nor function of
            the file.
        line: where it begins.
        sha256: of the syntax trees of the file and of all that it imports from beside it; comments do not count.
    """

    file: Path
    offered: str
    kind: Kind
    form: Form
    line: int
    sha256: str


def find(path: Path, offered: str = "") -> Guest:
    """Return what a file offers; instead of a path it may be the name of a guest's plug-in (``guests/places.py``).

    Args:
        path: of the file.
        offered: what is meant of all that stands there, at the top level; empty for what the file itself offers.

    Raises:
        UserError: there is no such file, it is not Python, or it offers nothing or several things; one line that says
            what to do.
    """
    from leaklab.guests.places import file_of  # which asks this module what a file offers

    path = file_of(path) or path
    guest = found_in(path, offered)
    if guest is None:
        raise UserError(f"{path} offers nothing to judge: give it {OFFERS}")
    return guest


def found_in(path: Path, offered: str = "") -> Guest | None:
    """Return what a file offers, see ``find``; None for nothing.

    Raises:
        UserError: there is no such file, it is not Python, or it offers several things.
    """
    file = path.absolute()
    tree = _tree(file, path)
    found = _named(tree, path, offered) if offered else _offered(tree, path)
    return None if found is None else Guest(file, *found, digest(file))


def digest(file: Path, root: Path | None = None, more: Sequence[Path] = ()) -> str:
    """Return the SHA-256 of the syntax trees of a file and of all that it imports from beside it, however deep.

    Args:
        file: where it begins.
        root: folder in which the names of imports begin; that of the file where none is given.
        more: files that count whether they are imported or not.

    Raises:
        UserError: one of them is not Python.
    """
    root = root or file.parent
    shapes = _shapes(file, root, more)
    parts = sorted((os.path.relpath(one, root), shape) for one, shape in shapes.items() if one != file)
    return hashlib.sha256(repr([shapes[file], *parts]).encode()).hexdigest()


def beside(file: Path) -> list[Path]:
    """Return the files that a file imports from its own folder, however deep."""
    return sorted(one for one in _shapes(file, file.parent) if one != file)


def _shapes(file: Path, root: Path, more: Sequence[Path] = ()) -> dict[Path, str]:
    seen: dict[Path, str] = {}
    waiting = [file, *more]
    while waiting:
        one = waiting.pop()
        if one not in seen:
            tree = _tree(one, one)
            seen[one] = shape_of(tree)
            waiting.extend(_beside(tree, one, root))
    return seen


def _tree(file: Path, shown: Path) -> ast.Module:
    if file.is_dir():
        raise UserError(f"{shown} is a folder: name the one file in it that is to be judged")
    if not file.is_file():
        raise UserError(f"{shown} is not there: name the Python file that is to be judged")
    if file.suffix != ".py":
        raise UserError(f"{shown} is no Python file: name one that ends in .py")
    try:
        if file.stat().st_size > MOST_BYTES:
            raise UserError(f"{shown} has more than {MOST_BYTES // 1_000_000} MB: keep data in files of their own")
        return ast.parse(file.read_bytes(), str(shown))
    except SyntaxError as error:
        raise UserError(f"{shown}, line {error.lineno}: not Python ({error.msg}): correct it") from None
    except ValueError as error:  # so some versions say it of null bytes
        raise UserError(f"{shown}: not Python ({error}): correct it") from None
    except (OSError, RecursionError, MemoryError) as error:
        raise UserError(f"{shown} cannot be read as Python ({error}): correct it") from None


def _beside(tree: ast.Module, file: Path, folder: Path) -> Iterator[Path]:
    """Yield the files that a file imports from the guest's folder, whole packages included."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            stem = node.module or ""
            names = [stem, *(f"{stem}.{alias.name}".strip(".") for alias in node.names)]
        start = file.parents[node.level - 1] if isinstance(node, ast.ImportFrom) and node.level else folder
        for name in filter(None, names):
            place = start.joinpath(*name.split("."))
            if place.is_dir():
                yield from sorted(place.rglob("*.py"))
            elif place.with_suffix(".py").is_file():
                yield place.with_suffix(".py")


def _named(tree: ast.Module, shown: Path, offered: str) -> tuple[str, Kind, Form, int]:
    for node in reversed(tree.body):  # the last one counts, as for an import
        if isinstance(node, ast.ClassDef) and node.name == offered:
            return offered, "attack" if _is_attack(node) else "defense", "class", node.lineno
        if isinstance(node, ast.FunctionDef) and node.name == offered:
            return offered, "defense", "function", node.lineno
        if isinstance(node, ast.Assign) and offered in [ast.unparse(one) for one in node.targets]:
            return offered, "defense", "object", node.lineno
    raise UserError(f"{shown} has no {offered} at its top level: define it there, with class, def or =")


def _offered(tree: ast.Module, shown: Path) -> tuple[str, Kind, Form, int] | None:
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for node in tree.body:
        if isinstance(node, ast.Assign) and [ast.unparse(one) for one in node.targets] == ["PLUGIN"]:
            name = node.value.id if isinstance(node.value, ast.Name) else "PLUGIN"
            if name in classes:
                return name, "attack" if _is_attack(classes[name]) else "defense", "class", classes[name].lineno
            return name, "defense", "function" if name in functions else "object", node.lineno
    kinds: list[tuple[str, Kind, Form, int]] = [
        (name, "attack" if _is_attack(node) else "defense", "class", node.lineno)
        for name, node in classes.items()
        if _is_attack(node) or _is_defense(node, classes)
    ]
    kinds = [one for one in kinds if not _is_base(one[0], classes)]
    if not kinds:
        takers = {name: node for name, node in functions.items() if not name.startswith("_") and _defends(node)}
        takers = {FUNCTION: takers[FUNCTION]} if FUNCTION in takers else takers
        kinds = [(name, "defense", "function", node.lineno) for name, node in takers.items()]
    if len(kinds) > 1:
        named = " and ".join(f"{name} (line {line})" for name, _, _, line in kinds)
        raise UserError(f"{shown} offers {named}: say which one is meant, PLUGIN = {kinds[0][0]}")
    return kinds[0] if kinds else None


def _is_attack(node: ast.ClassDef) -> bool:
    return any(isinstance(one, ast.FunctionDef) and one.name == "reconstruct" for one in node.body)


def _is_defense(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> bool:
    """Whether a base is called ``Defense``, by any way of writing it, or is a class of the file of which that holds."""
    bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
    others = [classes[base] for base in bases if base in classes and base != node.name]
    return "Defense" in bases or any(_is_defense(other, {**classes, node.name: other}) for other in others)


def _is_base(name: str, classes: dict[str, ast.ClassDef]) -> bool:
    return any(name == ast.unparse(base) for node in classes.values() for base in node.bases)


def _defends(node: ast.FunctionDef) -> bool:
    names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
    needed = len(names) - len(node.args.defaults)
    return bool(names) and names[0] == ARGUMENTS[0] and needed <= len(ARGUMENTS)


# What a guest raises, as one line.


class blamed:  # noqa: N801 - reads as a word in a with statement
    """Turn what a guest raises into one line with its file and line."""

    def __init__(self, file: Path, when: str) -> None:
        self.file, self.when = file, when

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Raise the line, where there was an error that the guest is to blame for."""
        if error is None or isinstance(error, UserError | MemoryError):
            return
        if isinstance(error, RuntimeError) and "allocate memory" in str(error):
            raise MemoryError from None  # so torch says it
        line = line_of(error, self.file)
        place = f"{self.file}, line {line}" if line else str(self.file)
        if isinstance(error, SystemExit | KeyboardInterrupt):
            raise UserError(f"{place}: it ends the process while {self.when}: leave out exit()") from None
        said = str(error).split("\n", 1)[0]
        raise UserError(f"{place}: {type(error).__name__} while {self.when}: {said:.300}") from None


def line_of(error: BaseException, file: Path) -> int | None:
    """Return the last line of the guest that an error passed; where it raised in a file beside it, that of the call."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return error.lineno
    found, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(file):
            found = trace.tb_lineno
        trace = trace.tb_next
    return found
