"""The keys of an item's rows have to point into each of its runs, or its table is refused after hours of work."""

from typing import Any

from leaklab.records.errors import UserError
from leaklab.records.expand import PlannedRun
from leaklab.records.items import Item
from leaklab.records.train_spec import TrainSpec


def check_row_keys(item: Item, run: PlannedRun) -> None:
    """Refuse a path of ``cells.row`` that leads nowhere in a run.

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
    lost = [path for path in paths if not _leads({**run.choice, **rates}, path.split("."))]
    if lost:
        raise UserError(
            f"cells.row: '{lost[0]}' does not point into the runs of this block: give it that field, e.g. "
            f"{_example(lost[0])}"
        )


def _leads(place: Any, parts: list[str]) -> bool:
    if not parts:
        return True
    if isinstance(place, list | tuple):
        return parts[0].isdigit() and int(parts[0]) < len(place) and _leads(place[int(parts[0])], parts[1:])
    return isinstance(place, dict) and parts[0] in place and _leads(place[parts[0]], parts[1:])


def _example(path: str) -> str:
    first, *rest = path.split(".")
    return f"{first}: {{{rest[0]}: ...}}" if rest else f"{first}: ..."
