"""Plug-ins by file name: ``defense: lrp`` is the class that ``defenses/lrp.py`` offers as ``PLUGIN``.

A new defense, attack or model is one new file; nothing else has to be edited. What a plug-in accepts is read from
its source, so that a misspelt setting, or a value out of range, is refused before torch is imported.
"""

import ast
import importlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from leaklab.records.errors import UserError
from leaklab.records.settings import Setting, aliases, settings_of_arguments, settings_of_fields

PACKAGE_FOLDER = Path(__file__).parents[1]


def module_name(room: str, name: str) -> str:
    """Return the dotted module of plug-in ``name`` (dashes) in ``room``, e.g. ``leaklab.defenses.lrp``."""
    return f"leaklab.{room.replace('/', '.')}.{name.replace('-', '_')}"


@cache
def available(room: str) -> list[str]:
    """Return the names of all plug-ins of a room: its modules that define ``PLUGIN``."""
    files = sorted((PACKAGE_FOLDER / room).glob("*.py"))
    return [file.stem.replace("_", "-") for file in files if _plugin_class(file) is not None]


def check(room: str, name: str, settings: Mapping[str, Any]) -> None:
    """Refuse an unknown plug-in, an undeclared setting, or a value that the setting cannot have.

    Raises:
        UserError: with what would have been accepted.
    """
    names = available(room)
    if name not in names:
        raise UserError(f"unknown {room} plug-in '{name}': choose from {', '.join(names)}")
    accepted = _settings(_file(room, name))
    for key, value in settings.items():
        if key not in accepted:
            raise UserError(
                f"{room} plug-in '{name}' has no setting '{key}': it accepts {', '.join(accepted) or 'none'}"
            )
        if problem := accepted[key].problem(value):
            raise UserError(f"{room} plug-in '{name}': {key}: {problem}, not {value!r:.40}")
    for key, setting in accepted.items():
        if setting.required and key not in settings:
            raise UserError(f"{room} plug-in '{name}' needs the setting '{key}': write {{name: {name}, {key}: ...}}")


def load(room: str, name: str, settings: Mapping[str, Any] | None = None) -> Any:
    """Import plug-in ``name`` of ``room`` and call its ``PLUGIN`` with the settings."""
    check(room, name, settings or {})
    return importlib.import_module(module_name(room, name)).PLUGIN(**(settings or {}))


def class_attribute(room: str, name: str, attribute: str) -> ast.expr | None:
    """Return the value that a plug-in's class, or the nearest of its bases, gives an attribute; None without one."""
    for one in _classes(_file(room, name)):
        for node in one.body:
            if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == attribute and node.value is not None:
                return node.value
    return None


@cache
def _tree(file: Path) -> ast.Module:
    try:
        return ast.parse(file.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError) as error:
        line = f"line {error.lineno}: " if isinstance(error, SyntaxError) else ""
        what = error.msg if isinstance(error, SyntaxError) else error
        raise UserError(f"{file}: {line}not Python ({what}): correct it, or take the file away") from None


def _file(room: str, name: str) -> Path:
    return PACKAGE_FOLDER / room / f"{name.replace('-', '_')}.py"


def _plugin_class(file: Path) -> str | None:
    for node in _tree(file).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(target, ast.Name) and target.id == "PLUGIN":
            return node.value.id if isinstance(node.value, ast.Name) else None
    return None


@cache
def _settings(file: Path) -> Mapping[str, Setting]:
    """Return the dataclass fields (inherited ones first) or function arguments of the plug-in, from its source."""
    tree, wanted = _tree(file), _plugin_class(file)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == wanted:
            return settings_of_arguments(node.args, aliases(tree))
    chain = _classes(file)
    bases = [node for node in chain[1:] if "dataclass" in map(_called, node.decorator_list)]
    settings: dict[str, Setting] = {}
    for node in [*reversed(bases), *chain[:1]]:
        settings |= settings_of_fields(node, aliases(tree))
    return settings


def _classes(file: Path, wanted: str | None = None) -> list[ast.ClassDef]:
    """Return the plug-in's class and its chain of first bases, as far as they are ours."""
    wanted = wanted or _plugin_class(file)
    for node in _tree(file).body:
        if isinstance(node, ast.ClassDef) and node.name == wanted:
            base = node.bases[0] if node.bases else None
            return [node, *(_classes(_home(file, base.id), base.id) if isinstance(base, ast.Name) else [])]
    return []


def _home(file: Path, name: str) -> Path:
    """Return the file of ours from which ``file`` imports a class, or else ``file``."""
    for node in _tree(file).body:
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
            package, *path = (node.module or "").split(".")
            return PACKAGE_FOLDER.joinpath(*path).with_suffix(".py") if package == "leaklab" and path else file
    return file


def _called(node: ast.expr) -> str:
    return ast.unparse(node.func if isinstance(node, ast.Call) else node)


def blamed(error: BaseException) -> str | None:
    """Return where in a plug-in an error arose and which, in one line; None where no plug-in had a part in it."""
    found = None
    trace = error.__traceback__
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if file.is_relative_to(PACKAGE_FOLDER) and _plugin_class(file) is not None:
            found = f"{file.relative_to(PACKAGE_FOLDER.parent)}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return found and f"{found}: {type(error).__name__}: {error}: correct the plug-in or its settings"
