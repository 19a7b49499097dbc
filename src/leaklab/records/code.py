"""Digest of the code that a step runs: of every definition of ours that it reaches.

A step reaches what the statements of its module name, what those definitions name, and so on; of every module that is
imported on the way, what it does on import. Comments, docstrings and formatting do not count, nor do definitions beside
those that are reached: an edit of theirs, a checkout or a comment reruns nothing, a changed line of its own does.
Where a definition stands is no part of it: moved to another module it keeps its digest, unless it asks where it is
(``__file__``, ``__name__``), or the new module does other things on import. What is found by its name at run time is
not seen, so a plug-in that a spec names is a start of its own.
"""

import ast
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from leaklab.records.definitions import (
    PACKAGE,
    PLACED,
    STATEMENTS,
    Binding,
    Module,
    Node,
    Place,
    Reference,
    circles,
    imports_in,
    modules_of,
    plugin_name,
    references_in,
    shape_of,
)

SOURCE = Path(__file__).parents[2]
EVERYTHING = "*"
"""Stands for all that a module defines and does: it was asked for something by a name that the text does not tell."""
DIGITS = 16
LOADER = ("leaklab.records.plugins", "load")
"""What finds a plug-in by its name."""


def digest(step: str, plugins: Iterable[str] = (), loaded: Iterable[str] = ()) -> str:
    """Return 16 hex digits for all that a job reaches, in the sources of this checkout.

    Args:
        step: the module that is run.
        plugins: what it finds by name: ``module:NAME`` for a definition, ``module`` for what that does on import.
        loaded: what plug-ins may load in turn; those count whose names stand as text in what the plug-ins reach.
    """
    return sources(SOURCE).digest(step, plugins, loaded)


def add(module: str, file: Path) -> None:
    """Let a module that stands outside of the package count with what it reaches of ours, in this process."""
    sources(SOURCE)._files[module] = file


@cache
def sources(folder: Path) -> "Sources":
    """Return the sources below a folder, which are read once."""
    return Sources(folder)


@dataclass(frozen=True)
class Definition:
    """A definition with what it names.

    Attributes:
        shape: hash of its text.
        named: (as it is called there, place) of each definition that it names, whole modules included.
        imported: modules that its own imports run.
    """

    shape: str
    named: tuple[tuple[str, Place], ...]
    imported: tuple[str, ...]


@dataclass
class Sources:
    """All modules of ours below a folder, which holds the package."""

    folder: Path
    _modules: dict[str, Module] = field(default_factory=dict)
    _files: dict[str, Path | None] = field(default_factory=dict)
    _definitions: dict[Place, Definition] = field(default_factory=dict)
    _following: dict[Place, tuple[Place, ...]] = field(default_factory=dict)
    _texts: dict[Place, frozenset[str]] = field(default_factory=dict)
    _hashes: dict[Place, str] = field(default_factory=dict)

    def digest(self, step: str, plugins: Iterable[str] = (), loaded: Iterable[str] = ()) -> str:
        """See ``digest``."""
        roots = self.roots(step, plugins, loaded)
        on_import = {place for place in self.reached(roots) if place[1] == STATEMENTS and self._acts(place)}
        lines = sorted({self._hash(place) for place in {*roots, *on_import}})
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:DIGITS]

    def roots(self, step: str, plugins: Iterable[str], loaded: Iterable[str]) -> list[Place]:
        """Return where all that a job reaches begins."""
        own = [self.start(one) for one in plugins]
        return [self.start(step), *own, *self._loaded(own, loaded)]

    def _loaded(self, own: Iterable[Place], starts: Iterable[str]) -> list[Place]:
        reached = self.reached(own)
        if LOADER not in reached:
            return []
        said = set().union(*map(self._said, reached))
        return [to for to in map(self.start, starts) if plugin_name(to) in said]

    def _said(self, place: Place) -> frozenset[str]:
        """Return what stands as text in a definition."""
        module, name = place
        if place not in self._texts:
            nodes = () if name == EVERYTHING else self.module(module).nodes(name)
            constants = (one.value for node in nodes for one in ast.walk(node) if isinstance(one, ast.Constant))
            self._texts[place] = frozenset(value for value in constants if isinstance(value, str))
        return self._texts[place]

    def start(self, text: str) -> Place:
        """Return the place that a start means; all of its module where there is no such definition."""
        module, _, name = text.partition(":")
        place = module, name or STATEMENTS
        return place if self._exists(place) else (module, EVERYTHING)

    def _acts(self, place: Place) -> bool:
        return bool(self.module(place[0]).statements or self.definition(place).named)

    def reached(self, roots: Iterable[Place]) -> set[Place]:
        """Return every definition that is reached from some, and the statements of every module that is imported."""
        found: set[Place] = set()
        waiting = list(roots)
        while waiting:
            place = waiting.pop()
            if place in found or not self._exists(place):
                continue
            found.add(place)
            waiting.extend(self._reached_at_once(place))
        return found

    def _reached_at_once(self, place: Place) -> tuple[Place, ...]:
        if place not in self._following:
            own = self.definition(place)
            modules = (place[0], *self.module(place[0]).on_import, *own.imported)
            on_import = ((module, STATEMENTS) for module in modules if self.file(module))
            self._following[place] = tuple({*(target for _, target in own.named), *on_import})
        return self._following[place]

    def module(self, name: str) -> Module:
        """Return a module; an empty one where there is no such file."""
        if name not in self._modules:
            self._modules[name] = Module.read(name, self.file(name))
        return self._modules[name]

    def file(self, module: str) -> Path | None:
        """Return the file of a module of ours; None where there is none."""
        if module not in self._files:
            path = self.folder / Path(*module.split("."))
            places = (path.with_suffix(".py"), path / "__init__.py") if module.split(".")[0] == PACKAGE else ()
            self._files[module] = next((one for one in places if one.is_file()), None)
        return self._files[module]

    def definition(self, place: Place) -> Definition:
        """Return a definition with what it names."""
        if place not in self._definitions:
            self._definitions[place] = self._read(place)
        return self._definitions[place]

    def _exists(self, place: Place) -> bool:
        module, name = place
        return name in (STATEMENTS, EVERYTHING) or name in self.module(module).definitions

    def _read(self, place: Place) -> Definition:
        module, name = self.module(place[0]), place[1]
        if name == EVERYTHING:
            every = (*module.definitions, STATEMENTS)
            return Definition("everything", tuple((one, (module.name, one)) for one in every), ())
        nodes = module.nodes(name)
        local: dict[str, Binding] = {}
        if name in module.definitions:
            for node in nodes:
                local |= imports_in(node)
        references = set().union(*map(references_in, nodes))
        if name == STATEMENTS:
            references |= self._acting_on_import(module)
        named = {(_called(one), target) for one in references for target in self._targets(module, local, one)}
        where = module.name if any(PLACED & {one.root, *one.attributes} for one in references) else ""
        shape = _hashed(where, *map(shape_of, nodes))
        return Definition(shape, tuple(sorted(named)), modules_of(local))

    def _acting_on_import(self, module: Module) -> set[Reference]:
        """Return the definitions that do something when they are made: a decorator of ours, a base that is told."""
        found: set[Reference] = set()
        for name, nodes in module.definitions.items():
            for node in nodes:
                if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    continue
                decorators = [one for each in node.decorator_list for one in references_in(each)]
                ours = any(True for one in decorators for _ in self._targets(module, {}, one))
                told = isinstance(node, ast.ClassDef) and (bool(node.keywords) or self._base_is_told(module, node))
                if ours or told:
                    found.add(Reference(name))
        return found

    def _base_is_told(self, module: Module, node: Node) -> bool:
        """Tell whether a class has a base of ours that is told of its subclasses."""
        for base in node.bases if isinstance(node, ast.ClassDef) else ():
            for one in references_in(base):
                for place in self._targets(module, {}, one):
                    for own in self.module(place[0]).definitions.get(place[1], ()):
                        body = own.body if isinstance(own, ast.ClassDef) else []
                        told = any(isinstance(n, ast.FunctionDef) and n.name == "__init_subclass__" for n in body)
                        if told or self._base_is_told(self.module(place[0]), own):
                            return True
        return False

    def _targets(self, module: Module, local: dict[str, Binding], reference: Reference) -> Iterator[Place]:
        """Yield the definitions of ours that a reference means; none for what is not ours."""
        if reference.root in module.definitions:
            yield module.name, reference.root
        for binding in (local.get(reference.root), module.imports.get(reference.root)):
            if binding is not None:
                yield from self._bound(binding, reference.attributes)
        known = reference.root in module.definitions or reference.root in module.imports or reference.root in local
        if not known:
            for star in module.stars:
                if self._names(star, reference.root):
                    yield star, EVERYTHING

    def _bound(self, binding: Binding, attributes: tuple[str, ...]) -> Iterator[Place]:
        """Follow an imported name, and the attributes that are asked of it as far as they are modules."""
        path = [binding.name, *attributes] if binding.name else list(attributes)
        module = binding.module
        while path and self.file(f"{module}.{path[0]}") and path[0] not in self.module(module).definitions:
            module = f"{module}.{path.pop(0)}"
        if self.file(module) is None:
            return
        if path:
            yield from self._in_module(module, path[0], tuple(path[1:]))
        else:
            yield module, EVERYTHING

    def _in_module(self, module: str, name: str, attributes: tuple[str, ...]) -> Iterator[Place]:
        home = self.module(module)
        if name in home.definitions or name in home.imports:
            yield from self._targets(home, {}, Reference(name, attributes))
        else:  # from a star, or made by a statement
            yield module, EVERYTHING

    def _names(self, module: str, name: str) -> bool:
        home = self.module(module)
        return name in home.definitions or name in home.imports or any(self._names(one, name) for one in home.stars)

    def _hash(self, place: Place) -> str:
        """Return the hash of a definition and of all that it reaches."""
        if place not in self._hashes:
            for circle in circles(place, self._unhashed):
                self._hash_circle(circle)
        return self._hashes[place]

    def _hash_circle(self, circle: list[Place]) -> None:
        """Hash definitions that reach each other, all others that they name being hashed.

        Each round tells apart what its neighbours told apart in the round before, so that as many rounds as there are
        members tell all apart that can be.
        """
        inside = set(circle)
        known = {
            place: _hashed(
                own.shape, *sorted(f"{name} {self._hashes[to]}" for name, to in own.named if to in self._hashes)
            )
            for place, own in ((place, self.definition(place)) for place in circle)
        }
        for _ in range(len(circle) if len(circle) > 1 else 0):
            known = {
                place: _hashed(
                    known[place],
                    *sorted(f"{name} {known[to]}" for name, to in self.definition(place).named if to in inside),
                )
                for place in circle
            }
        self._hashes |= known

    def _unhashed(self, place: Place) -> Iterator[Place]:
        return (to for _, to in self.definition(place).named if to not in self._hashes)


def _called(reference: Reference) -> str:
    return ".".join((reference.root, *reference.attributes))


def _hashed(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()
