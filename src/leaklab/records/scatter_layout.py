"""How an item's points are arranged: ``scatter`` of its YAML."""

from typing import Any

from pydantic import Field

from leaklab.records.layouts import Named


class ScatterLayout(Named):
    """``scatter`` of an item's YAML: points in the plane.

    Attributes:
        x: metric of the first coordinate.
        y: metric of the second one, under the same row keys.
        groups: row keys; points with the same values have the same sign and color.
        panels: row keys; each combination of their values is one panel.
        where: row keys that a number must have to be shown.
        note: explained below the figure.
    """

    x: str
    y: str
    groups: tuple[str, ...]
    panels: tuple[str, ...] = ()
    where: dict[str, Any] = Field(default_factory=dict)
    note: str = ""
