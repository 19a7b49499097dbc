"""Plug-ins by file name: ``defense: lrp`` is the class that ``defenses/lrp.py`` offers as ``PLUGIN``.

A new defense, attack or model is one new file; nothing else has to be edited. What a plug-in accepts is read from
its source, so that a misspelt setting is refused before torch is imported.
"""

import ast
import importlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from leaklab.records.errors import UserError

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
    """Refuse an unknown plug-in or an undeclared setting.

    Raises:
        UserError: with the names that would have been accepted.
    """
    names = available(room)
    if name not in names:
        raise UserError(f"unknown {room} plug-in '{name}': choose from {', '.join(names)}")
    accepted = _declared_settings(_file(room, name))
    for key in settings:
        if key not in accepted:
            raise UserError(
                f"{room} plug-in '{name}' has no setting '{key}': it accepts {', '.join(accepted) or 'none'}"
            )


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
    return ast.parse(file.read_text(encoding="utf-8"))


def _file(room: str, name: str) -> Path:
    return PACKAGE_FOLDER / room / f"{name.replace('-', '_')}.py"


def _plugin_class(file: Path) -> str | None:
    for node in _tree(file).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(target, ast.Name) and target.id == "PLUGIN":
            return node.value.id if isinstance(node.value, ast.Name) else None
    return None


def _declared_settings(file: Path) -> list[str]:
    """Return the dataclass fields (inherited ones first) or function arguments of the plug-in, from its source."""
    wanted = _plugin_class(file)
    for node in _tree(file).body:
        if isinstance(node, ast.FunctionDef) and node.name == wanted:
            return [a.arg for a in [*node.args.args, *node.args.kwonlyargs]]
    chain = _classes(file)
    bases = [node for node in chain[1:] if "dataclass" in map(_called, node.decorator_list)]
    names = [_setting(field) for node in [*reversed(bases), *chain[:1]] for field in node.body]
    return list(dict.fromkeys(name for name in names if name))


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


def _setting(node: ast.stmt) -> str | None:
    """Return the name of a dataclass field; a ``ClassVar`` is not a setting."""
    if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
        return None
    return None if "ClassVar" in ast.unparse(node.annotation) else node.target.id
