"""What a module of ours defines, and which other definitions each of its definitions names.

A module is cut at its top level into *definitions* (functions, classes, constants) and *statements*, all the rest that
runs when it is imported. A definition names others by plain names, by attributes of imported modules and in the text of
annotations; a name that a function also uses for something of its own counts too, so that nothing is missed.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

PACKAGE = "leaklab"
STATEMENTS = "<statements>"
"""Name of what a module does when it is imported; decorators and bases of ours that act at that moment are in it."""
PLACED = frozenset({"__file__", "__name__", "__module__", "__package__", "__qualname__"})
"""Who reads one of these is not the same in another module."""
TRAITS = "traits"
"""What a class says of itself to plans (``traits.py``): no job executes it, so it is in no digest."""
_TYPE_CHECKING = "TYPE_CHECKING"
Node = ast.AST
Place = tuple[str, str]
"""Module and name of a definition."""


@dataclass(frozen=True)
class Binding:
    """What an import binds a name to.

    Attributes:
        module: dotted name of the module.
        name: of what is taken from it; empty for the module itself.
    """

    module: str
    name: str = ""


@dataclass(frozen=True)
class Reference:
    """One name that a definition uses.

    Attributes:
        root: the name that the module or the definition binds.
        attributes: those that are asked of it, as far as the text tells.
    """

    root: str
    attributes: tuple[str, ...] = ()


@dataclass
class Module:
    """A module of ours, cut into definitions.

    Attributes:
        name: dotted.
        tree: its syntax tree; empty where there is no such file.
        definitions: name -> the nodes that define it, in their order.
        statements: what runs on import and defines nothing.
        imports: name -> what imports outside of functions bind it to.
        stars: modules from which it imports all names.
    """

    name: str
    tree: ast.Module
    definitions: dict[str, list[Node]] = field(default_factory=dict)
    statements: list[Node] = field(default_factory=list)
    imports: dict[str, Binding] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, name: str, file: Path | None) -> "Module":
        """Cut a file; without one the module is empty."""
        tree = ast.parse(file.read_text(encoding="utf-8")) if file else ast.Module(body=[], type_ignores=[])
        module = cls(name, tree)
        for node in tree.body:
            module._sort(node)
        return module

    def _sort(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom) or _for_types_only(node):
            pass
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self.definitions.setdefault(node.name, []).append(node)
        elif family := _family(node):
            self.definitions |= family
        elif names := _assigned(node):
            for name in names:
                self.definitions.setdefault(name, []).append(node)
        elif not _is_text(node):
            self.statements.append(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found = imports_in(node)
            self.imports |= {name: binding for name, binding in found.items() if binding.name != "*"}
            self.stars += [binding.module for binding in found.values() if binding.name == "*"]

    @cached_property
    def on_import(self) -> tuple[str, ...]:
        """The modules of ours that run when this one is imported, its packages first."""
        packages = [self.name.rsplit(".", depth)[0] for depth in range(self.name.count("."), 0, -1)]
        return (*packages, *modules_of(self.imports), *self.stars)

    def nodes(self, name: str) -> list[Node]:
        """Return the nodes behind a definition, or all statements."""
        return self.statements if name == STATEMENTS else self.definitions[name]


def modules_of(imports: Mapping[str, Binding]) -> tuple[str, ...]:
    """Return the modules that imports run; a name that turns out to be a module is one of them."""
    named = [(binding.module, f"{binding.module}.{binding.name}") for binding in imports.values()]
    return tuple(dict.fromkeys(one for pair in named for one in pair if not one.endswith(".")))


def imports_in(node: Node) -> dict[str, Binding]:
    """Return what the imports of ours anywhere in a node bind; those of types only are bound as well."""
    found: dict[str, Binding] = {}
    for one in ast.walk(node):
        if isinstance(one, ast.Import):
            for alias in one.names:
                if alias.name.split(".")[0] == PACKAGE:
                    # without ``as`` the package is bound, and the rest is asked of it
                    found[alias.asname or PACKAGE] = Binding(alias.name if alias.asname else PACKAGE)
                    if not alias.asname:
                        found[f"import {alias.name}"] = Binding(alias.name)
        elif isinstance(one, ast.ImportFrom) and not one.level and (one.module or "").split(".")[0] == PACKAGE:
            for alias in one.names:
                name = f"* of {one.module}" if alias.name == "*" else alias.asname or alias.name
                found[name] = Binding(one.module or "", alias.name)
    return found


def references_in(node: Node) -> set[Reference]:
    """Return all names that a node uses, those in the text of annotations included."""
    found: set[Reference] = set()
    waiting = [node]
    while waiting:
        one = waiting.pop()
        chain = _chain(one)
        if chain is not None:
            found.add(chain)
            continue
        waiting.extend(child for child in ast.iter_child_nodes(one) if not _is_traits(child))
        waiting.extend(_annotated(one))
    return found


def _chain(node: Node) -> Reference | None:
    """Return ``a`` or ``a.b.c`` as a reference; None for anything else."""
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    return Reference(node.id, tuple(reversed(attributes))) if isinstance(node, ast.Name) else None


def _annotated(node: Node) -> Iterator[Node]:
    """Yield what stands as text in an annotation of a node, parsed."""
    for place in ("annotation", "returns"):
        for one in ast.walk(said) if (said := getattr(node, place, None)) is not None else ():
            if isinstance(one, ast.Constant) and isinstance(one.value, str):
                try:
                    yield ast.parse(one.value, mode="eval")
                except SyntaxError:
                    continue


def family_member(name: str) -> str:
    """Return what the member ``name`` of a family of plug-ins is called among the definitions of its module."""
    return f"PLUGINS[{name}]"


def plugin_name(place: tuple[str, str]) -> str:
    """Return the name of the plug-in that is offered at a place: module and definition."""
    module, name = place
    return name[len("PLUGINS[") : -1] if name.startswith("PLUGINS[") else module.rpartition(".")[2].replace("_", "-")


def _family(node: ast.stmt) -> dict[str, list[Node]]:
    """Return the members of a family of plug-ins, each as a file of its own would offer it; none for anything else.

    So each has a digest of its own, which it keeps when it moves into the family's file or out of it.
    """
    if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict) and _assigned(node) == ["PLUGINS"]):
        return {}
    members = zip(node.value.keys, node.value.values, strict=True)
    return {
        family_member(str(key.value)): [ast.Assign(targets=[ast.Name("PLUGIN", ast.Store())], value=member)]
        for key, member in members
        if isinstance(key, ast.Constant)
    }


def _assigned(node: ast.stmt) -> list[str]:
    """Return the names that an assignment defines; none for anything else, and for one that also changes something."""
    if isinstance(node, ast.AnnAssign):
        targets: list[ast.expr] = [node.target]
    elif isinstance(node, ast.Assign):
        targets = [part for one in node.targets for part in (one.elts if isinstance(one, ast.Tuple) else [one])]
    else:
        return []
    return [one.id for one in targets if isinstance(one, ast.Name)] if all(map(_is_name, targets)) else []


def _is_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Name)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_traits(node: Node) -> bool:
    return isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == TRAITS


def _for_types_only(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == _TYPE_CHECKING


def shape_of(value: object) -> str:
    """Return a syntax tree as text that is the same in every Python version; docstrings are not in it.

    ``ast.dump`` is not: versions differ in optional fields and in how empty ones are shown.
    """
    if isinstance(value, ast.AST):
        fields = (f"{name}={shape_of(inner)}" for name, inner in _fields(value) if inner not in (None, []))
        return f"{type(value).__name__}({','.join(fields)})"
    if isinstance(value, list):
        return f"[{','.join(map(shape_of, value))}]"
    return repr(value)


def _fields(node: Node) -> Iterator[tuple[str, object]]:
    documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    for name, inner in ast.iter_fields(node):
        # a text that nobody assigns is a docstring or stands under a constant as its remark: it does nothing
        if name == "body" and documented and isinstance(inner, list):
            yield name, [one for one in inner if not (_is_text(one) or _is_traits(one))]
        else:
            yield name, inner


def circles(root: Place, named: Callable[[Place], Iterator[Place]]) -> Iterator[list[Place]]:
    """Yield the definitions that reach each other together, those that are named before those that name them.

    Tarjan's strongly connected components, without recursion.

    Args:
        root: where to begin.
        named: what a definition names.
    """
    number: dict[Place, int] = {root: 0}
    low = {root: 0}
    path, walk = [root], [(root, named(root))]
    on_path = {root}
    while walk:
        place, rest = walk[-1]
        following = next(rest, None)
        if following is None:
            walk.pop()
            if walk:
                above = walk[-1][0]
                low[above] = min(low[above], low[place])
            if low[place] == number[place]:
                cut = path.index(place)
                circle, path = path[cut:], path[:cut]
                on_path.difference_update(circle)
                yield circle
        elif following not in number:
            number[following] = low[following] = len(number)
            path.append(following)
            on_path.add(following)
            walk.append((following, named(following)))
        elif following in on_path:
            low[place] = min(low[place], number[following])
