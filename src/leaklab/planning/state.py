"""The state of an item at a scale, as ``leaklab items`` and the report show it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from leaklab.planning.plan import Plan, result_files
from leaklab.records.config import SCALES, Scale
from leaklab.records.items import Item

Word = Literal["done", "not run", "planned"]


@dataclass(frozen=True)
class State:
    """Whether an item's result is here, and if not, why."""

    word: Word
    reason: str = ""


def state_of(plan: Plan, item: Item, scale: Scale, root: Path = Path()) -> State:
    """Return the item's state at a scale."""
    if item.planned:
        return State("planned", item.planned)
    if (scale, item.key) not in plan.runs:
        reason = item.scales[scale].planned if scale in item.scales else ""
        if missing := item.scales[scale].missing if scale in item.scales else {}:
            return State("not run", "; ".join(missing.values()))
        return State("planned", reason or f"not set up for scale {scale}")
    files = result_files(item, scale)
    if all((root / files[name]).is_file() for name in ("csv", "png")):
        return State("done")
    return State("not run", how_to_make(item, scale))


def how_to_make(item: Item, scale: Scale) -> str:
    """Return the command that makes an item at a scale, as it can be typed."""
    return f"snakemake --cores 2 {result_files(item, scale)['csv']}"


def states(plan: Plan, root: Path = Path()) -> dict[str, dict[Scale, State]]:
    """Return item -> scale -> state."""
    return {key: {s: state_of(plan, item, s, root) for s in SCALES} for key, item in plan.items.items()}
