"""``config/config.yaml`` and how YAML files of ours are read: typed, unknown keys refused with their path.

What a file may hold: text, finite numbers, true, false, null, lists, and mappings whose keys are text.

PyYAML takes more than a configuration can mean: of two equal keys the last one wins, ``.nan`` is a number, ``no`` may
be a key, a date is an object. Such things are refused here, with line and key.
"""

import math
from collections.abc import Iterator
from math import inf
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, Field, RootModel, ValidationError
from pydantic_core import ErrorDetails

from leaklab.records.bounds import NonNegative
from leaklab.records.errors import UserError
from leaklab.records.record import Record
from leaklab.records.scales import SCALES as SCALES
from leaklab.records.scales import Scale as Scale

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml reads all items in a sixth of the time
DEEPEST = 50
MOST_NODES = 100_000
LARGEST = 2**63
_STANDARD = "tag:yaml.org,2002:"
_ALLOWED = {_STANDARD + kind for kind in ("str", "int", "float", "bool", "null", "seq", "map", "merge")}

Place = tuple[str, ...]


def plain_data(text: str) -> Any:
    """Return the one document of ``text``, None where it is empty.

    Raises:
        yaml.YAMLError: the text is not YAML.
        ValueError: it is, but holds what a configuration cannot; one line with line number and key.
    """
    _refuse_depth(text)  # on events: libyaml composes and Python visits nodes recursively
    loader = LOADER(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        for number, (inner, place) in enumerate(_nodes(node, ())):
            if number == MOST_NODES:
                raise ValueError(f"more than {MOST_NODES:,} values: anchors and aliases repeat too much")
            _check(loader, inner, place)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _refuse_depth(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ValueError(f"{_line(event)}: nested more than {DEEPEST} levels deep")


def _nodes(node: yaml.Node, place: Place) -> Iterator[tuple[yaml.Node, Place]]:
    """Yield a node and all below it, aliases written out, each with the keys that lead to it."""
    if len(place) > DEEPEST:
        raise ValueError(f"{_at(node, place[:3])}: an anchor that contains itself")
    yield node, place
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from _nodes(value, (*place, str(key.value)))
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield from _nodes(value, (*place, str(number)))


def _check(loader: Any, node: yaml.Node, place: Place) -> None:
    if node.tag not in _ALLOWED:
        shown = node.tag.replace(_STANDARD, "!!")
        advice = "write a number, true, false, null, or text (in quotes where it looks otherwise)"
        raise ValueError(f"{_at(node, place)}: {shown} has no meaning here: {advice}")
    if isinstance(node, yaml.MappingNode):
        _check_keys(node, place)
    elif node.tag in (f"{_STANDARD}int", f"{_STANDARD}float"):
        _check_number(loader, node, place)


def _check_keys(node: yaml.MappingNode, place: Place) -> None:
    seen: set[str] = set()
    for key, _ in node.value:
        if key.tag == f"{_STANDARD}merge":
            continue
        if key.tag != f"{_STANDARD}str":
            raise ValueError(f"{_at(key, place)}: the key {key.value} is not text: put it in quotes")
        if key.value in seen:
            raise ValueError(f"{_at(key, (*place, key.value))}: the key stands here twice: keep one of them")
        seen.add(key.value)


def _check_number(loader: Any, node: yaml.Node, place: Place) -> None:
    try:
        value = loader.construct_object(node)
    except (ValueError, OverflowError):
        value = math.nan
    if not (math.isfinite(value) if isinstance(value, float) else abs(value) < LARGEST):
        raise ValueError(f"{_at(node, place)}: {str(node.value)[:20]} is not a number to calculate with: correct it")


def _at(node: yaml.Node, place: Place) -> str:
    return f"{_line(node)}: {'.'.join(place) or '(top)'}"


def _line(marked: Any) -> str:
    return f"line {marked.start_mark.line + 1}"


CONFIG = Path("config/config.yaml")
Model = TypeVar("Model", bound=BaseModel)


class Config(Record):
    """Settings of a checkout.

    Attributes:
        scale: what a bare ``snakemake`` makes.
        device: where training and attacks run; ``auto`` is decided by ``planning/gpus.py``.
        mirror: folder with the data mirror; the environment variable LEAKLAB_MIRROR wins over it.
        checkpoint_seconds: least time between two checkpoints of a job; LEAKLAB_CHECKPOINT_SECONDS wins over it.
    """

    scale: Scale = Field(default="demo", description="what a bare `snakemake` makes: demo, small or paper")
    device: Literal["auto", "cpu", "cuda"] = Field(
        default="auto",
        description="where training and attacks run; auto: on a GPU where one works or a cluster has some",
    )
    mirror: str | None = Field(default=None, description="data mirror folder; LEAKLAB_MIRROR wins over it")
    checkpoint_seconds: NonNegative = Field(default=120.0, description="least time between two checkpoints of a job")


def load_config(path: Path = CONFIG) -> Config:
    """Read ``config/config.yaml``."""
    return parse(Config, read_yaml(path), path)


def read_yaml(path: Path) -> Any:
    """Read one YAML document.

    Raises:
        UserError: the file is missing, is not YAML, or holds what no configuration can mean (``records/config.py``).
    """
    try:
        value = plain_data(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} is missing: run from the project's root folder") from None
    except (IsADirectoryError, PermissionError) as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): it has to be a file that you may read") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text (byte {error.start}): save it as UTF-8") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None
    return {} if value is None else value


def parse(model: type[Model], value: Any, source: Path | str) -> Model:
    """Validate ``value`` as ``model``.

    Raises:
        UserError: one line that names the file, the key's path and what is wrong with it.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        # a misspelt key says more than what is missing because of it
        first = min(_of_best_forms(model, error.errors()), key=lambda one: one["type"] != "extra_forbidden")
        forms = {len(place) for place in _forms(model, first["loc"])}
        where = ".".join(str(part) for k, part in enumerate(first["loc"]) if k not in forms) or "(top)"
        what = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            what = f"unknown key; known keys are {', '.join(_known_keys(model, first['loc']))}"
        raise UserError(f"{source}: {where}: {what}") from None


def _forms(model: type[BaseModel], location: tuple[int | str, ...]) -> list[tuple[int | str, ...]]:
    """Return the places along an error's location where a value may have several forms; the next part names one."""
    current: Any = model
    places = []
    for k, part in enumerate(location):
        if get_origin(current) in (Union, UnionType):
            places.append(location[:k])
        current = _inner(current, part)
    return places


def _of_best_forms(model: type[BaseModel], errors: list[ErrorDetails]) -> list[ErrorDetails]:
    """Of values that may have several forms, keep the errors of the form whose keys fit best."""
    for place in sorted({place for one in errors for place in _forms(model, one["loc"])}, key=len):
        depth = len(place)
        misfits: dict[int | str, float] = {}
        for one in errors:
            if len(one["loc"]) > depth and one["loc"][:depth] == place:
                form = one["loc"][depth]
                misfits[form] = misfits.get(form, 0) + _misfit(one, depth)
        best = min(misfits.values(), default=0)
        worse = {(*place, form) for form, number in misfits.items() if number > best}
        errors = [one for one in errors if one["loc"][: depth + 1] not in worse]
    return errors


def _misfit(error: ErrorDetails, depth: int) -> float:
    """Return how much an error speaks against a form: a key that is missing or unknown, or not a mapping at all."""
    if len(error["loc"]) == depth + 1 and error["type"] != "value_error":
        return inf
    return float(error["type"] in ("extra_forbidden", "missing"))


def _known_keys(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    current: Any = model
    for part in location[:-1]:
        current = _inner(current, part)
    return sorted(info.alias or name for name, info in current.model_fields.items()) if _is_model(current) else []


def _inner(annotation: Any, part: int | str) -> Any:
    """Return the type that one part of an error's location leads to, None where that cannot be told."""
    if _is_model(annotation) and issubclass(annotation, RootModel):
        return _inner(annotation.model_fields["root"].annotation, part)
    if _is_model(annotation):
        fields = annotation.model_fields.items()
        return _without_none(next((info.annotation for name, info in fields if part in (name, info.alias)), None))
    if get_origin(annotation) in (Union, UnionType):
        # a form with validators is called ``function-after[_its_validator(), Form]``
        name = str(part).rstrip("]").rpartition(" ")[2]
        return next((form for form in get_args(annotation) if getattr(form, "__name__", "") == name), None)
    # the value of a mapping, the item of a sequence
    return next((_without_none(inner) for inner in reversed(get_args(annotation)) if inner is not Ellipsis), None)


def _without_none(annotation: Any) -> Any:
    forms = [form for form in get_args(annotation) if form is not type(None)]
    return forms[0] if get_origin(annotation) in (Union, UnionType) and len(forms) == 1 else annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
