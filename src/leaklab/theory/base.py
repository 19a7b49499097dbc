"""What a check of a theorem, algorithm, protocol or drawing offers."""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from leaklab.records.errors import UserError
from leaklab.records.files import read_table, write_table

Track = Callable[[Iterable[int], int, str], Iterable[int]]


@dataclass(frozen=True)
class Clients:
    """The private facts of all N clients of a deal.

    Attributes:
        sizes: samples n_k of each client.
        class_counts: distinct classes Y_k of each client.
    """

    sizes: tuple[int, ...]
    class_counts: tuple[int, ...]


@dataclass(frozen=True)
class Number:
    """One number that a check found.

    Attributes:
        metric: what it is.
        value: the number.
        row: what it belongs to, beside the check's own settings.
        index: place in a curve; None for a single number.
        std: sample standard deviation over ``n`` repetitions.
        n: number of repetitions.
    """

    metric: str
    value: float
    row: Mapping[str, Any] = field(default_factory=dict)
    index: int | None = None
    std: float | None = None
    n: int | None = None


class Check(Protocol):
    """A numerical check. Its dataclass fields are its settings.

    A check that measures wall time names those metrics in its ``traits`` (``records/traits.py``): only they may
    differ when it runs again.
    """

    def run(self, seed: int, clients: Clients | None, track: Track) -> Iterable[Number]:
        """Return the numbers.

        Args:
            seed: seed of all draws, which come from named streams.
            clients: the deal that the spec names, if any.
            track: wraps a long loop (iterable, total, label).

        Raises:
            UserError: the settings do not fit each other, or a deal is needed and none was given.
        """
        ...


# ``numbers.csv``: what a check found, one line per number, the row's keys as JSON.

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
