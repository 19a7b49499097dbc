"""The keys of an item's rows have to point into each of its runs, or its table is refused after hours of work."""

from typing import Any

from leaklab.records.errors import UserError
from leaklab.records.expand import PlannedRun
from leaklab.records.items import Item
from leaklab.records.train_spec import TrainSpec

NOWHERE = object()


def check_row_keys(item: Item, run: PlannedRun) -> None:
    """Refuse a path of ``cells.row`` that leads nowhere in a run, or to a list, which no line of a table can be of.

    Raises:
        UserError: names the path, and what to write.
    """
    paths = (
        [source if isinstance(source, str) else source.source for source in item.cells.row.values()]
        if item.cells
        else []
    )
    # the table has a line for each pair of rates of a training
    rates = {"rates": run.spec.rates[0]} if isinstance(run.spec, TrainSpec) else {}
    found = {path: _value({**run.choice, **rates}, path.split(".")) for path in paths}
    lost = [path for path, value in found.items() if value is NOWHERE]
    if lost:
        raise UserError(
            f"cells.row: '{lost[0]}' does not point into the runs of this block: give it that field, e.g. "
            f"{_example(lost[0])}"
        )
    whole = [path for path, value in found.items() if isinstance(value, list | tuple | dict)]
    if whole:
        raise UserError(
            f"cells.row: '{whole[0]}' is {found[whole[0]]} in the runs of this block, and not one value of it: fields "
            "that are lists elsewhere (clients, rates, seeds) are never run one by one, so give it another name"
        )


def _value(place: Any, parts: list[str]) -> Any:
    if not parts:
        return place
    if isinstance(place, list | tuple):
        inside = parts[0].isdigit() and int(parts[0]) < len(place)
        return _value(place[int(parts[0])], parts[1:]) if inside else NOWHERE
    return _value(place[parts[0]], parts[1:]) if isinstance(place, dict) and parts[0] in place else NOWHERE


def _example(path: str) -> str:
    first, *rest = path.split(".")
    return f"{first}: {{{rest[0]}: ...}}" if rest else f"{first}: ..."
