"""What all specs and declarations are made of."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

Scalar = bool | int | float | str | None


class Record(BaseModel):
    """A frozen model that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


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
