"""Plug-ins by name: ``defense: lrp`` is the class that ``defenses/lrp.py`` offers as ``PLUGIN``.

A family of small ones shares a file, which offers each under its name: ``PLUGINS = {"lsp": LSP, "bsp": BSP}``. A new
defense, attack or model is one new file; nothing else has to be edited. What a plug-in accepts is read from its source,
so that a misspelt setting, or a value out of range, is refused before torch is imported.
"""

import ast
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, Union

from pydantic import TypeAdapter, ValidationError

from leaklab.records import bounds
from leaklab.records.asked import refuse_clocks
from leaklab.records.definitions import family_member
from leaklab.records.errors import UserError

PLAIN = {"int": bounds.Whole, "float": bounds.Real, "bool": bounds.Flag, "str": str, "None": None}
Aliases = Mapping[str, ast.expr]
"""What names of the module stand for: ``Stem = Literal["cifar", "imagenet"]``."""


@dataclass(frozen=True)
class Setting:
    """One setting of a plug-in.

    Attributes:
        kind: decides which values are accepted.
        required: there is no default.
    """

    kind: TypeAdapter[Any]
    required: bool

    def problem(self, value: Any) -> str | None:
        """Return what is wrong with a value, None where it is accepted."""
        try:
            self.kind.validate_python(value)
        except ValidationError as error:
            return error.errors()[0]["msg"]
        return None


def aliases(tree: ast.Module) -> Aliases:
    """Return what the names of a module stand for."""
    return {
        node.targets[0].id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }


def settings_of_fields(node: ast.ClassDef, known: Aliases) -> dict[str, Setting]:
    """Return the fields of a dataclass; a ``ClassVar`` is not a setting."""
    return {
        field.target.id: Setting(TypeAdapter(_type(field.annotation, known)), required=field.value is None)
        for field in node.body
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and "ClassVar" not in ast.unparse(field.annotation)
    }


def settings_of_arguments(arguments: ast.arguments, known: Aliases) -> dict[str, Setting]:
    """Return the arguments of a function."""
    first = len(arguments.args) - len(arguments.defaults)
    required = [place < first for place in range(len(arguments.args))]
    required += [default is None for default in arguments.kw_defaults]
    own = [*arguments.args, *arguments.kwonlyargs]
    return {
        argument.arg: Setting(TypeAdapter(_type(argument.annotation, known)), without_default)
        for argument, without_default in zip(own, required, strict=True)
    }


def _type(node: ast.expr | None, known: Aliases) -> Any:
    if isinstance(node, ast.Name) and node.id in known:
        return _type(known[node.id], {})
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return Union[_type(node.left, known), _type(node.right, known)]  # noqa: UP007 - known when this runs only
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal":
        values = ast.literal_eval(node.slice)
        return Literal[values if isinstance(values, tuple) else (values,)]
    if isinstance(node, ast.Name | ast.Constant):
        name = ast.unparse(node)
        return PLAIN[name] if name in PLAIN else getattr(bounds, name, Any)
    return Any


PACKAGE_FOLDER = Path(__file__).parents[1]
ONE, FAMILY = "PLUGIN", "PLUGINS"
"""What a file calls the plug-in that it offers, or the family of them."""


@dataclass(frozen=True)
class Offer:
    """Where a plug-in stands.

    Attributes:
        file: that offers it.
        offered: its class or function there.
        key: its name in the file's ``PLUGINS``; empty for the one ``PLUGIN`` of a file.
    """

    file: Path
    offered: str
    key: str = ""

    @property
    def module(self) -> str:
        """The dotted module, e.g. ``leaklab.defenses.lrp``."""
        return ".".join(self.file.relative_to(PACKAGE_FOLDER.parent).with_suffix("").parts)

    @property
    def start(self) -> str:
        """Where a digest of its code starts, see ``records/code.py::digest``."""
        return f"{self.module}:{family_member(self.key) if self.key else ONE}"


@cache
def offers(room: str) -> Mapping[str, Offer]:
    """Return the plug-ins of a room by name: a folder's files that offer any, or the one file that is the room.

    Raises:
        UserError: a file is not Python, or two files offer one name.
    """
    found: dict[str, Offer] = {}
    for file in _files(room):
        for name, offer in _offered(file).items():
            if name in found:
                raise UserError(f"{found[name].file} and {file} both offer the plug-in '{name}': rename one of them")
            found[name] = offer
    return found


def find(room: str, name: str) -> Offer:
    """Return where a plug-in stands.

    Raises:
        UserError: there is none of that name; with those that there are.
    """
    known = offers(room)
    if name not in known:
        raise UserError(f"unknown {room} plug-in '{name}': choose from {', '.join(available(room))}")
    return known[name]


def available(room: str) -> list[str]:
    """Return the names of all plug-ins of a room."""
    return sorted(offers(room), key=lambda name: name.replace("-", "_"))


def check(room: str, name: str, settings: Mapping[str, Any]) -> None:
    """Refuse an unknown plug-in, an undeclared setting, a value that the setting cannot have, or a clock.

    Raises:
        UserError: with what would have been accepted.
    """
    accepted = _settings(find(room, name))
    refuse_clocks(room, find(room, name).file)
    for key, value in settings.items():
        if key not in accepted:
            known = ", ".join(accepted) or "none"
            raise UserError(f"{room} plug-in '{name}' has no setting '{key}': it accepts {known}")
        if problem := accepted[key].problem(value):
            raise UserError(f"{room} plug-in '{name}': {key}: {problem}, not {value!r:.40}")
    for key, setting in accepted.items():
        if setting.required and key not in settings:
            raise UserError(f"{room} plug-in '{name}' needs the setting '{key}': write {{name: {name}, {key}: ...}}")


def load(room: str, name: str, settings: Mapping[str, Any] | None = None) -> Any:
    """Import plug-in ``name`` of ``room`` and call it with the settings."""
    check(room, name, settings or {})
    return imported(room, name)(**(settings or {}))


def imported(room: str, name: str) -> Any:
    """Import a plug-in's class or function, unchecked."""
    offer = find(room, name)
    module = importlib.import_module(offer.module)
    return getattr(module, FAMILY)[offer.key] if offer.key else getattr(module, ONE)


def class_attribute(room: str, name: str, attribute: str) -> ast.expr | None:
    """Return the value that a plug-in's class, or the nearest of its bases, gives an attribute; None without one."""
    return _attribute(find(room, name), attribute)


@cache
def _attribute(offer: Offer, attribute: str) -> ast.expr | None:
    for one in _classes(offer.file, offer.offered):
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


def _files(room: str) -> list[Path]:
    place = PACKAGE_FOLDER / room
    return sorted(place.glob("*.py")) if place.is_dir() else [place.with_suffix(".py")]


@cache
def _offered(file: Path) -> Mapping[str, Offer]:
    found: dict[str, Offer] = {}
    for node in _tree(file).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        name, value = getattr(target, "id", ""), getattr(node, "value", None)
        if name == ONE and isinstance(value, ast.Name):
            found[file.stem.replace("_", "-")] = Offer(file, value.id)
        if name == FAMILY and isinstance(value, ast.Dict):
            pairs = zip(value.keys, value.values, strict=True)
            own = {str(ast.literal_eval(key)): ast.unparse(member) for key, member in pairs if key is not None}
            found |= {key: Offer(file, member, key) for key, member in own.items()}
    return found


def offered_in(file: Path) -> Mapping[str, Offer]:
    """Return the plug-ins that a file offers by name; none where it offers none.

    Raises:
        UserError: it is not Python.
    """
    return _offered(file)


def tree_of(file: Path) -> ast.Module:
    """Return the syntax tree in which this process reads what a file declares."""
    return _tree(file)


def add(room: str, name: str, offer: Offer) -> None:
    """Let a room offer ``PLUGIN`` of a module from outside of the package, by a name that tells its code apart."""
    known = offers(room)
    assert isinstance(known, dict)
    known[name] = offer


@cache
def _settings(offer: Offer) -> Mapping[str, Setting]:
    """Return the dataclass fields (inherited ones first) or function arguments of the plug-in, from its source."""
    tree, wanted = _tree(offer.file), offer.offered
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == wanted:
            return settings_of_arguments(node.args, aliases(tree))
    chain = _classes(offer.file, wanted)
    bases = [node for node in chain[1:] if "dataclass" in map(_called, node.decorator_list)]
    settings: dict[str, Setting] = {}
    for node in [*reversed(bases), *chain[:1]]:
        settings |= settings_of_fields(node, aliases(tree))
    return settings


def _classes(file: Path, wanted: str) -> list[ast.ClassDef]:
    """Return a plug-in's class and its chain of first bases, as far as they are ours."""
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
    found, trace = None, error.__traceback__
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if file.is_relative_to(PACKAGE_FOLDER) and _offered(file):
            found = f"{file.relative_to(PACKAGE_FOLDER.parent)}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return found and f"{found}: {type(error).__name__}: {error}: correct the plug-in or its settings"
