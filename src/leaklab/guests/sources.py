"""Where a defense stands that is given as a Python object: in its file, or in one that is written of its source.

A child imports a file and is given no object, so what lives in a notebook or at a prompt is written down with all that
it uses there: imports, constants, functions and classes.
"""

import ast
import builtins
import inspect
import linecache
import os
import symtable
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from leaklab.records.errors import UserError

Definition = FunctionType | type
ADVICE = "put it into a file, and give its path"


@dataclass(frozen=True)
class Source:
    """Where a defense stands.

    Attributes:
        file: Python.
        offered: its name there; empty for what the file itself offers.
        written: the file was written of an object, and will be gone.
    """

    file: Path
    offered: str = ""
    written: bool = False


def source_of(defense: object, folder: Path) -> Source:
    """Return where a defense stands.

    Args:
        defense: a path, a function, a class, or an object of a class.
        folder: for a file that has to be written.

    Raises:
        UserError: its source cannot be had, or it rests on what cannot be written down.
    """
    if isinstance(defense, str | os.PathLike):
        return Source(Path(defense))
    defined = defense if isinstance(defense, FunctionType | type) else type(defense)
    if isinstance(defense, FunctionType) and defense.__name__ == "<lambda>":
        raise UserError("a lambda has no name to be judged by: define the function with def")
    if inspect.isroutine(defense) and not isinstance(defense, FunctionType):
        raise UserError(f"{defense!r:.80} is no plain function: define one with def that calls it")
    if found := _in_its_file(defense, defined):
        return found
    parts: dict[str, str] = {}
    _write_down(defined.__name__, defined, parts)
    parts["PLUGIN"] = f"PLUGIN = {defined.__name__}" if defense is defined else _made_again(defense)
    file = folder / f"{defined.__name__}.py"
    file.write_text("\n\n".join(parts.values()) + "\n", encoding="utf-8")
    return Source(file, written=True)


def _in_its_file(defense: object, defined: Definition) -> Source | None:
    """Return a module's file with the name that the defense has there; None where there is no file, or no name."""
    module = sys.modules.get(defined.__module__)
    file = Path(getattr(module, "__file__", None) or "/")
    names = [name for name, value in vars(module).items() if value is defense] if module else []
    return Source(file, names[0]) if names and file.suffix == ".py" and file.is_file() else None


def _made_again(defense: object) -> str:
    """Return lines that make an object again, as ``PLUGIN``, with all that it keeps.

    Raises:
        UserError: it keeps what cannot be written down.
    """
    kind = type(defense)
    if not hasattr(defense, "__dict__") or kind.__new__ is not object.__new__:
        raise UserError(f"a {kind.__name__} cannot be written down: define a function with def that calls it")
    if others := [name for name, value in vars(defense).items() if not _is_literal(value)]:
        raise UserError(
            f"the {kind.__name__} that is given keeps '{others[0]}', which cannot be written down: let it keep numbers "
            f"and texts, or {ADVICE}"
        )
    return f"PLUGIN = object.__new__({kind.__name__})\nPLUGIN.__dict__.update({vars(defense)!r})"


def _write_down(name: str, value: object, parts: dict[str, str]) -> None:
    """Add to ``parts`` the lines that define a name, after those that they need.

    Raises:
        UserError: they cannot be had.
    """
    if isinstance(value, ModuleType):
        parts[name] = f"import {value.__name__} as {name}"
    elif home := _home(value):
        parts[name] = f"from {home} import {value.__qualname__} as {name}"  # type: ignore[attr-defined]
    elif isinstance(value, FunctionType | type):
        text = _definition(value)
        _refuse_closure(value)
        parts[name] = ""  # two functions may call each other
        for needed, other in _uses(text, value):
            if needed not in parts:
                _write_down(needed, other, parts)
        del parts[name]
        parts[name] = text if name == value.__name__ else f"{text}\n\n{name} = {value.__name__}"
    elif _is_literal(value):
        parts[name] = f"{name} = {value!r}"
    else:
        raise UserError(f"it uses '{name}', a {type(value).__name__} that cannot be written down: {ADVICE}")


def _home(value: object) -> str | None:
    """Return the module that a child can import a value from; what was typed in ``__main__`` has none."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    held = vars(sys.modules.get(str(module)) or builtins).get(str(name))
    return str(module) if module != "__main__" and name and held is value else None


def _is_literal(value: object) -> bool:
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError, TypeError):
        return False


def _definition(value: Definition) -> str:
    """Return the text of a function or a class, with its decorators.

    Raises:
        UserError: it cannot be had.
    """
    try:
        return textwrap.dedent(inspect.getsource(value))
    except (OSError, TypeError):  # so it is for the classes of a notebook
        for code in _codes(value):
            lines = linecache.getlines(code.co_filename)
            for node in reversed(ast.parse("".join(lines)).body):
                if isinstance(node, ast.ClassDef) and node.name == value.__name__:
                    first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
                    return "".join(lines[first - 1 : node.end_lineno])
        raise UserError(f"the source of {value.__name__} cannot be had from here: {ADVICE}") from None


def _codes(value: Definition) -> Iterator[CodeType]:
    """Yield the code of a function, or of the methods of a class."""
    for one in vars(value).values() if isinstance(value, type) else [value]:
        function = inspect.unwrap(one) if callable(one) else None
        if isinstance(function, FunctionType) and function.__code__.co_filename != "<string>":  # of dataclasses
            yield function.__code__


def _refuse_closure(value: Definition) -> None:
    closed = sorted({name for code in _codes(value) for name in code.co_freevars} - {"__class__"})
    if closed:
        raise UserError(
            f"{value.__name__} closes over '{closed[0]}' of the function that it was made in, which cannot be written "
            f"down: define it at the top level, or {ADVICE}"
        )


def _uses(text: str, value: Definition) -> Iterator[tuple[str, Any]]:
    """Yield the global names that a definition uses, with what they stand for."""
    known: Mapping[str, Any] = (
        value.__globals__ if isinstance(value, FunctionType) else vars(sys.modules[value.__module__])
    )
    top = symtable.symtable(text, f"<{value.__name__}>", "exec")
    waiting, names = [top], set()
    while waiting:
        table = waiting.pop()
        waiting += table.get_children()
        symbols = (one for one in table.get_symbols() if one.is_referenced())
        names |= {one.get_name() for one in symbols if table is top or one.is_global()}
    for name in sorted(names & set(known)):
        if known[name] is not value and getattr(builtins, name, None) is not known[name]:
            yield name, known[name]
