"""Guests take part in this process: rooms offer them under names that say which code they are.

Specs name ``shrinking-guest-3fa9c2d1b0e4``. The digest is part of the name, so that it is in the run's id, and a
process in which the file is another one has no plug-in of that name: it refuses, and reuses nothing. Files are read as
source until a step loads one.
"""

import ast
import importlib
import importlib.abc
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_loader
from pathlib import Path
from types import CodeType, ModuleType
from typing import TypeGuard

from leaklab.guests import files
from leaklab.guests.places import Lodger, lodgers, names_of
from leaklab.records import code, plugins
from leaklab.records.errors import UserError


@dataclass(frozen=True)
class GuestOffer(plugins.Offer):
    """Where a guest stands.

    Attributes:
        name: of the module under which it is imported.
    """

    name: str = ""

    @property
    def module(self) -> str:
        """The module whose ``PLUGIN`` it is."""
        return self.name

    @property
    def start(self) -> str:
        """Where the digest of the code of ours that it reaches starts."""
        return f"{self.name}:{self.offered or code.EVERYTHING}"


def admit() -> Mapping[str, Mapping[str, Lodger]]:
    """Let all guests that can be found here take part; return them by room and name.

    Raises:
        UserError: see ``places.lodgers``.
    """
    known = lodgers()
    for room, own in known.items():
        for lodger in own.values():
            name = re.sub(r"\W", "_", f"leaklab_guest_{room}_{lodger.key}")
            _FINDER.known[name] = lodger
            plugins.add(room, lodger.key, GuestOffer(lodger.file, lodger.offered, "", name))
            code.add(name, lodger.file)
            _name_by_digest(lodger, names_of(known))
    if _FINDER not in sys.meta_path:
        sys.meta_path.append(_FINDER)
    return known


def _name_by_digest(lodger: Lodger, names: Mapping[tuple[str, str], str]) -> None:
    """Let a transform that is made for a guest fit it under the name that it has here; specs know no other."""
    declared = (node.value for node in ast.walk(plugins.tree_of(lodger.file)) if _says_what_fits(node))
    for one in (one for value in declared for one in ast.walk(value) if isinstance(one, ast.Constant)):
        one.value = names.get(("defenses", str(one.value)), one.value)


def _says_what_fits(node: ast.AST) -> TypeGuard[ast.keyword]:
    return isinstance(node, ast.keyword) and node.arg in ("fits", "unfit")


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of guests by the names that ``admit`` gave them."""

    def __init__(self) -> None:
        self.known: dict[str, Lodger] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the loader of a guest's module; None for any other."""
        lodger = self.known.get(fullname)
        if lodger is None:
            return None
        loader = _Packaged(lodger) if lodger.entry else _Loader(fullname, lodger)
        return spec_from_loader(fullname, loader)


_FINDER = _Finder()


class _Loader(SourceFileLoader):
    """Runs a guest's file, whose folder is the last in which its imports are sought."""

    def __init__(self, fullname: str, lodger: Lodger) -> None:
        super().__init__(fullname, str(lodger.file))
        self.lodger = lodger

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the file as it is now: a compiled one of the same second may be of an older file."""
        return self.source_to_code(self.get_data(self.path), self.path)

    def exec_module(self, module: ModuleType) -> None:
        """Run the file, and give its plug-in the name by which it is loaded."""
        _refuse_changed(self.lodger)
        _refuse_mixed_up(self.lodger.file)
        if str(self.lodger.file.parent) not in sys.path:
            sys.path.append(str(self.lodger.file.parent))
        super().exec_module(module)
        module.PLUGIN = _plugin(module, self.lodger)  # type: ignore[attr-defined]


class _Packaged(importlib.abc.Loader):
    """Imports a module of an installed distribution as that."""

    def __init__(self, lodger: Lodger) -> None:
        self.lodger = lodger

    def exec_module(self, module: ModuleType) -> None:
        """Import it, and give its plug-in the name by which it is loaded."""
        _refuse_changed(self.lodger)
        source, _, name = self.lodger.entry.partition(":")
        module.PLUGIN = getattr(importlib.import_module(source), name.strip())  # type: ignore[attr-defined]


def _refuse_changed(lodger: Lodger) -> None:
    if lodger.digest_now() != lodger.sha256:
        raise UserError(f"{lodger.place} was changed while it was at work: run the same command again")


def _refuse_mixed_up(file: Path) -> None:
    """Refuse a guest that would import what stands beside another one under the same name."""
    for one in files.beside(file):
        name = one.relative_to(file.parent).with_suffix("").parts[0]
        there = getattr(sys.modules.get(name), "__file__", None)
        if there and not Path(there).is_relative_to(file.parent):
            raise UserError(f"{file} imports '{name}' from beside it, and {there} is called so too: rename one")


def _plugin(module: ModuleType, lodger: Lodger) -> Callable[..., object]:
    """Return what makes the guest's plug-in from its settings."""
    if lodger.alone and lodger.room == "defenses":
        guest = files.found_in(lodger.file)
        assert guest is not None
        if guest.form != "class":
            from leaklab.guests.calls import made  # imports torch

            return partial(made, guest, module)
    family: Mapping[str, Callable[..., object]] = getattr(module, plugins.FAMILY, {})
    one: Callable[..., object] = family.get(lodger.name) or getattr(module, lodger.offered)
    return one


def said_of_guests(error: BaseException) -> str | None:
    """Return where in a guest an error arose and which, in one line; None where no guest had a part in it."""
    lines = ((one.place, files.line_of(error, one.file)) for one in _FINDER.known.values())
    found = next((f"{place}, line {line}" for place, line in lines if line), None)
    said = " ".join(str(error).split())
    return found and f"{found}: {type(error).__name__}: {said}: correct the plug-in or its settings"
