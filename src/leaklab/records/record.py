"""What all specs and declarations are made of."""

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, model_serializer, model_validator

Scalar = bool | int | float | str | None
Plugin = tuple[str, str, Mapping[str, Any]]
"""Room, name and settings."""


class Record(BaseModel):
    """A frozen model that refuses unknown keys.

    Attributes:
        LATER: fields that were added after runs had been made. At their default they are left out of the text, so
            that the ids of those runs stay.
    """

    LATER: ClassVar[frozenset[str]] = frozenset()
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_serializer(mode="wrap")
    def _without_later_defaults(self, write: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        written = write(self)
        for name, default in _later_defaults(type(self)):
            if getattr(self, name) == default:
                written.pop(name, None)
        return written


@cache
def _later_defaults(model: type[Record]) -> tuple[tuple[str, Any], ...]:
    return tuple((name, model.model_fields[name].default) for name in sorted(model.LATER))


class Component(Record):
    """A plug-in by name, with its settings: ``lrp`` or ``{name: lrp, class_slope: 0.1}``.

    Attributes:
        name: module name in the room (``defenses/``, ``attacks/``, ...), with dashes.
        settings: keyword arguments of the plug-in; each must be declared there.
    """

    name: str
    settings: dict[str, Scalar] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _accept_short_forms(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"name": value}
        if isinstance(value, dict) and "settings" not in value:
            own = {k: v for k, v in value.items() if k in cls.model_fields}
            return {**own, "settings": {k: v for k, v in value.items() if k not in own}}
        return value

    def in_room(self, room: str) -> Plugin:
        """Return it with the room in which it stands."""
        return room, self.name, self.settings


# The one JSON text of a spec, by which runs are named and told apart.

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical_json(value: Any) -> str:
    """Return the one JSON text of a spec: sorted keys, no spaces, defaults written out."""
    plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    return _ENCODER.encode(plain)
