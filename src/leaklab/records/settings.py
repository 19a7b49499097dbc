"""What the settings of a plug-in may be: the types of its fields, read from its source without importing it.

Understood are ``int``, ``float``, ``bool``, ``str``, ``None``, the names of ``records/bounds.py``, ``Literal[...]``,
a name that the module gives to one of these, and alternatives (``Positive | None``); any other type is left to the
plug-in.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union

from pydantic import TypeAdapter, ValidationError

from leaklab.records import bounds

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
