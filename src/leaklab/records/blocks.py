"""What a block of runs says besides the fields of its runs."""

from collections.abc import Mapping
from itertools import product
from math import prod
from typing import Any, Literal

from pydantic import Field

from leaklab.records.bounds import Distinct, Rate, distinct
from leaklab.records.config import parse
from leaklab.records.errors import UserError
from leaklab.records.record import Record

AS_DESCRIBED = "as-described"
MOST_RUNS = 10_000
"""Of one block at one scale: the largest table here has some hundred."""


class Override(Record):
    """Fields that are set where others have a value.

    Attributes:
        when: path -> value, or list of values of which any will do; all paths have to match.
        set: path -> new value.
    """

    when: dict[str, Any]
    set: dict[str, Any]


class BlockKeys(Record):
    """The keys of a block that are no fields of its runs (``config/README.md``, "Blocks of runs")."""

    stage: str
    variant: str = AS_DESCRIBED
    overrides: tuple[Override, ...] = ()
    skip: tuple[dict[str, Any], ...] = ()
    attacker: Literal["paper", "blind", "knowing"] | None = None


BLOCK_KEYS = {*BlockKeys.model_fields, "like"}


def overrides_at_scale(block: Mapping[str, Any], *changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a block's overrides under their key as a scale has them: its own, then those of the scale.

    An override of the scale stands for those of the block with the same condition, and an empty list of the scale for
    all. So what is added to a block holds at every scale that does not say otherwise.

    Args:
        block: its keys, as written.
        changes: what the scale sets in every block, then in this one; empty is returned where none names overrides.
    """
    merged: dict[str, Any] = {}
    for of_scale in (change["overrides"] for change in changes if "overrides" in change):
        merged = {"overrides": _merged(merged.get("overrides", block.get("overrides")), of_scale)}
    return merged


def _merged(own: Any, of_scale: Any) -> Any:
    """Return both lists as one; what is no list is left to the check of a block's keys."""
    if not isinstance(own, list) or not isinstance(of_scale, list) or not of_scale:
        return of_scale
    again = [override.get("when") for override in of_scale if isinstance(override, dict)]
    kept = [override for override in own if not (isinstance(override, dict) and override.get("when") in again)]
    return [*kept, *of_scale]


class RateGrid(Record):
    """``rate: {grid: [[0.01], [0.01, 0.02]]}``: one list per client; all combinations are settings of one sweep."""

    grid: tuple[Distinct[Rate], ...] = Field(min_length=1)


def grid_of_rates(grid: Any, where: str) -> list[list[Any]]:
    """Return all combinations of the lists of a grid.

    Raises:
        UserError: the grid is malformed or too large.
    """
    parse(RateGrid, grid, where)
    lists = grid["grid"]  # as written: whole rates stay whole numbers in the keys of rows
    refuse_too_many([len(rates) for rates in lists], where)
    return [list(combination) for combination in product(*lists)]


def check_axis(values: list[Any], where: str) -> None:
    """Refuse an axis without values, or with one value twice.

    Raises:
        UserError: with the place of the axis.
    """
    if not values:
        raise UserError(f"{where}: the list is empty, so nothing would run: name a value, or drop the block")
    try:
        distinct(tuple(values))
    except ValueError as error:
        raise UserError(f"{where}: {error}") from None


def refuse_too_many(lengths: list[int], where: str) -> None:
    """Refuse axes whose product nobody can mean.

    Raises:
        UserError: with the number of combinations.
    """
    if prod(lengths) > MOST_RUNS:
        raise UserError(f"{where}: {prod(lengths):,} combinations: more than {MOST_RUNS:,} are a slip of the pen")
