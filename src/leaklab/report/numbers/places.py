"""Where a number belongs among others: the values of its keys, their order and their shown names."""

from collections.abc import Mapping, Sequence
from typing import Any

from leaklab.items.layouts import MINUS as MINUS
from leaklab.items.layouts import Named
from leaklab.records.errors import UserError
from leaklab.report.numbers.results import SELECTION, TRIED, ResultRow

OWN_CHOICE = "own choice"
# values tagged by whether they are booleans, because true and 1 are the same dictionary key
Place = tuple[tuple[bool, Any], ...]


def place_of(row: ResultRow, keys: Sequence[str]) -> Place:
    """Return the values of a row's keys; ``metric`` and ``attacker`` are keys too.

    Raises:
        UserError: the row lacks a key.
    """
    special = {"metric": row.metric, "attacker": row.attacker, SELECTION: OWN_CHOICE, TRIED: ""}
    values: Mapping[str, Any] = {**special, **row.row}
    absent = [key for key in keys if key not in values]
    if absent:
        raise UserError(
            f"{row.paper} {row.item}: a row has no key {', '.join(absent)}: name only its keys in the layout, or leave "
            "such rows out with 'where'"
        )
    return tuple((isinstance(values[key], bool), values[key]) for key in keys)


def in_order(layout: Named, metrics: Sequence[str], keys: Sequence[str], places: Sequence[Place]) -> list[Place]:
    """Sort numbers and booleans by value; names stay in the order of their labels, else of their appearance."""
    orders = [_order(layout, metrics, key, [place[depth] for place in places]) for depth, key in enumerate(keys)]
    unique = list(dict.fromkeys(places))
    return sorted(unique, key=lambda place: tuple(order[value] for order, value in zip(orders, place, strict=True)))


def labels_of(layout: Named, keys: Sequence[str], place: Place) -> tuple[str, ...]:
    """Return the shown names of a place's values."""
    return tuple(layout.label(key, value) for key, (_, value) in zip(keys, place, strict=True))


def _order(layout: Named, metrics: Sequence[str], key: str, values: list[Any]) -> dict[Any, int]:
    found = list(dict.fromkeys(values))
    if key == "metric":
        found.sort(key=lambda value: metrics.index(value[1]))
    elif all(isinstance(value, int | float) for _, value in found):
        found.sort(key=lambda value: value[1])
    elif key in layout.labels:
        names = list(layout.labels[key])
        found.sort(key=lambda value: names.index(value[1]) if value[1] in names else len(names))
    return {value: place for place, value in enumerate(found)}


# Which of several images stands for all in a picture.


def typical(values: Mapping[int, float]) -> int:
    """Return the image whose value is the median, of an even number the lower one of the two in the middle."""
    ordered = sorted(values, key=lambda image: (values[image], image))
    return ordered[(len(ordered) - 1) // 2]


# Signs that all renderers share; none of them relies on color.

NONE = "\u2013"
TIMES = "\u00d7"
MARKS = {"best": "▲", "worst": "▼", "": ""}
WITHIN = {"yes": "✓", "no": "✗"}
STATES = {"done": "●", "not run": "○", "planned": "◌"}
