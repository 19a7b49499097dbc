"""What a plug-in declares in its class, read from its source: importing an attack or a model imports torch.

A declaration is a call of a dataclass with named literals: ``traits: ClassVar[ModelTraits] = ModelTraits(...)``.
"""

import ast
from collections.abc import Mapping
from typing import Any, TypeVar

from leaklab.records import plugins
from leaklab.records.errors import UserError

T = TypeVar("T")


def declaration(
    room: str, name: str, attribute: str, kind: type[T], constants: Mapping[str, Any] | None = None
) -> T | None:
    """Return what plug-in ``name`` of ``room``, or the nearest of its bases, declares; None where none does.

    Args:
        room: of the plug-in.
        name: the plug-in's.
        attribute: of the class.
        kind: dataclass that is called.
        constants: what may stand there by its name.

    Raises:
        UserError: there is no such plug-in, or what it declares cannot be read.
    """
    node = plugins.class_attribute(room, name, attribute)
    if node is None:
        return None
    try:
        if not (isinstance(node, ast.Call) and ast.unparse(node.func) == kind.__name__ and not node.args):
            raise ValueError(f"it is no call of {kind.__name__} with named arguments")
        return kind(**{str(keyword.arg): value_of(keyword.value, constants or {}) for keyword in node.keywords})
    except (TypeError, ValueError) as reason:
        words = f"with literals or {', '.join(constants)}" if constants else "with literals"
        raise UserError(
            f"{room} plug-in '{name}' declares no readable {attribute} ({reason}): write "
            f"'{attribute}: ClassVar[{kind.__name__}] = {kind.__name__}(...)' {words}"
        ) from None


def chosen(room: str, name: str, settings: Mapping[str, Any], setting: str) -> Any:
    """Return what a setting is set to: by ``settings``, or by the plug-in's class; None where it has no such setting.

    Raises:
        UserError: there is no such plug-in.
    """
    default = plugins.class_attribute(room, name, setting)
    return settings.get(setting, None if default is None else ast.literal_eval(default))


def value_of(node: ast.expr, constants: Mapping[str, Any]) -> Any:
    """Return the value of literals and of constants by name, within tuples and mappings too.

    Raises:
        ValueError: there is anything else.
    """
    if isinstance(node, ast.Name) and node.id in constants:
        return constants[node.id]
    if isinstance(node, ast.Tuple):
        parts = [
            value_of(part.value, constants) if isinstance(part, ast.Starred) else (value_of(part, constants),)
            for part in node.elts
        ]
        return tuple(one for part in parts for one in part)
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {ast.literal_eval(key): value_of(value, constants) for key, value in pairs if key is not None}
    return ast.literal_eval(node)
