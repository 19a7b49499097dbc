"""A generator on disk: weights as safetensors, and beside them a description from which the network is rebuilt."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from leaklab.models.generators.base import Generator
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.files import read_json, read_tensors, write_json, write_tensors

ROOM = "models/generators"


def save_generator(path: Path, generator: Generator, name: str, settings: Mapping[str, Any]) -> None:
    """Write ``path`` (safetensors) and the description beside it (same name, ``.json``).

    Args:
        path: of the weights.
        generator: to be written.
        name: the plug-in that made it.
        settings: of the plug-in.
    """
    write_tensors(path, generator.state_dict())
    sizes = {"num_classes": generator.num_classes, "image_shape": list(generator.image_shape)}
    write_json(path.with_suffix(".json"), {"name": name, "settings": dict(settings), **sizes})


def load_generator(path: Path) -> Generator:
    """Return the generator of ``path``, frozen, on the CPU.

    Raises:
        UserError: a file is missing or damaged, or the weights are not those that the description speaks of.
    """
    card, weights = read_json(path.with_suffix(".json")), read_tensors(path)
    if not isinstance(card, dict) or set(card) != {"name", "settings", "num_classes", "image_shape"}:
        raise _unfit(path, "its description lacks the name, settings, num_classes or image_shape")
    try:
        generator = _described(card)
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError, UserError) as error:
        raise _unfit(path, f"no network is made from its description ({error})") from None
    problem = _difference(generator.state_dict(), weights)
    if problem:
        raise _unfit(path, problem)
    generator.load_state_dict(weights, strict=True)
    return generator.frozen()


def _described(card: Mapping[str, Any]) -> Generator:
    """Return the network of a description; one with odd values raises whatever the makers of its layers do."""
    if not isinstance(card["settings"], dict):
        raise TypeError("its settings are no names and values")
    channels, height, width = card["image_shape"]
    architecture = plugins.load(ROOM, card["name"], card["settings"])
    generator: Generator = architecture.generator((channels, height, width), card["num_classes"])
    return generator


def _difference(wanted: dict[str, Tensor], found: dict[str, Tensor]) -> str | None:
    if set(wanted) != set(found):
        return f"'{min(set(wanted) ^ set(found))}' is missing or unknown"
    for name, value in wanted.items():
        if (value.shape, value.dtype) != (found[name].shape, found[name].dtype):
            shape = list(found[name].shape)
            return f"'{name}' is {found[name].dtype} {shape}, not {value.dtype} {list(value.shape)}"
        if not bool(found[name].isfinite().all()):
            return f"'{name}' holds numbers that are not finite"
    return None


def _unfit(path: Path, problem: str) -> UserError:
    return UserError(f"{path} is no generator: {problem}; delete it and train the generator again")
