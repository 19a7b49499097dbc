"""``numbers.csv``: what a check found, one line per number, the row's keys as JSON."""

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from leaklab.records.errors import UserError
from leaklab.records.files import read_table, write_table
from leaklab.theory.base import Number

COLUMNS = ("row", "metric", "index", "value", "std", "n")


def write_numbers(path: Path, numbers: Iterable[Number]) -> int:
    """Write the numbers in their order and return how many there are."""
    lines = [
        (
            json.dumps(dict(one.row), sort_keys=True, ensure_ascii=False),
            one.metric,
            one.index,
            one.value,
            one.std,
            one.n,
        )
        for one in numbers
    ]
    table = pd.DataFrame(lines, columns=list(COLUMNS))
    write_table(path, table.astype({"index": "Int64", "n": "Int64", "value": "float64", "std": "float64"}))
    return len(lines)


def read_numbers(path: Path) -> tuple[Number, ...]:
    """Read the numbers; a value that the check could not give is NaN.

    Raises:
        UserError: the file is missing or damaged.
    """
    table = read_table(path)
    try:
        return tuple(_number(line) for line in table[list(COLUMNS)].to_dict("records"))
    except (KeyError, OverflowError, RecursionError, TypeError, ValueError):
        raise UserError(f"{path} is damaged: delete it and run snakemake again") from None


def _number(line: dict[Any, Any]) -> Number:
    row = json.loads(line["row"])
    if not isinstance(row, dict):
        raise TypeError("a row is a JSON object")
    index, std, n = (None if math.isnan(line[name]) else line[name] for name in ("index", "std", "n"))
    return Number(
        metric=str(line["metric"]),
        value=float(line["value"]),
        row=row,
        index=None if index is None else int(index),
        std=None if std is None else float(std),
        n=None if n is None else int(n),
    )
