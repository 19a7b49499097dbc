"""What numbers may be, in specs and in the settings of plug-ins: one name for one range.

A plug-in writes ``dropped: Share = 0.9`` in place of ``float``, and a plan refuses ``dropped: 2`` before any job runs
(``records/plugins.py`` reads the name from the source). The upper ends are far above anything that runs in a month;
they stop slips of the pen. Text, booleans and, for whole numbers, fractions are refused: ``true`` is not 1.
"""

import json
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field

Whole = Annotated[int, Field(strict=True, ge=-(10**12), le=10**12)]
"""Any whole number of ordinary size."""
Natural = Annotated[int, Field(strict=True, ge=0, le=10**6)]
"""0 to a million."""
Count = Annotated[int, Field(strict=True, ge=1, le=10**6)]
"""1 to a million: rounds, steps, samples, clients."""
Draws = Annotated[int, Field(strict=True, ge=1, le=10**8)]
"""Draws of a numerical check."""
Seed = Annotated[int, Field(strict=True, ge=0, lt=2**63)]
"""A seed that a table of results can hold."""
Real = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-1e12, le=1e12)]
"""Any number of ordinary size."""
NonNegative = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0, le=1e6)]
"""0 to a million: noise, weights of penalties."""
Positive = Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0, le=1e6)]
"""Above 0, to a million."""
Rate = Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0, le=1000)]
"""A learning rate."""
Share = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0, le=1)]
"""0 to 1, both ends included."""
PartShare = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0, lt=1)]
"""0 to below 1: momentum, dropout, decay of an average."""
OpenShare = Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0, lt=1)]
"""Between 0 and 1, the ends excluded."""
Population = Annotated[int, Field(strict=True, ge=4, le=10_000)]
"""Candidates per generation of CMA-ES."""
Flag = Annotated[bool, Field(strict=True)]
"""true or false."""

Value = TypeVar("Value")


def distinct(values: tuple[Value, ...]) -> tuple[Value, ...]:
    """Refuse a list that says something twice."""
    seen: set[str] = set()
    for value in values:
        text = json.dumps(value, default=str, sort_keys=True)
        if text in seen:
            raise ValueError(f"{text} stands here twice: each counts once")
        seen.add(text)
    return values


_ONCE: dict[str, Any] = {"uniqueItems": True}
Distinct = Annotated[
    tuple[Value, ...], Field(min_length=1, max_length=10_000, json_schema_extra=_ONCE), AfterValidator(distinct)
]
"""A list that is not empty and says nothing twice."""
