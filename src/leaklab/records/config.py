"""``config/config.yaml`` and how YAML files of ours are read: typed, unknown keys refused with their path."""

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
from leaklab.records.yaml_text import plain_data

CONFIG = Path("config/config.yaml")
Scale = Literal["demo", "small", "paper"]
SCALES: tuple[Scale, ...] = ("demo", "small", "paper")
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
        UserError: the file is missing, is not YAML, or holds what no configuration can mean (``records/yaml_text.py``).
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
