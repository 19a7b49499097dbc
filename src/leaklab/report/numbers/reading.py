"""Result tables as ``ResultTable.read`` has them, for who reads those of a whole scale: in a third of the time.

What the numbers of a line share is read once, and so is each different cell. Whatever is not as we write it is left to
``ResultTable.read``, which takes it or says what is wrong: nothing is refused or taken here that is not there.
"""

import csv
import io
import math
from collections.abc import Callable
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any

from leaklab.report.numbers.compact import POINT_COLUMNS, SHARED_COLUMNS, keys_in_line, numbers_in_line
from leaklab.report.numbers.results import AS_DESCRIBED, ATTACKERS, COLUMNS, DIRECTIONS, ResultRow, ResultTable

OWN = ("row", *POINT_COLUMNS)
"""Columns in which the numbers of a line differ."""
ALLOWED = {"better": DIRECTIONS, "attacker": ATTACKERS}


def read_table(path: Path) -> ResultTable:
    """Return ``ResultTable.read`` of the same file.

    Raises:
        UserError: see there.
    """
    try:
        lines = csv.reader(io.StringIO(path.read_text(encoding="utf-8"), newline=""))
        return ResultTable(tuple(_rows(next(lines), lines)))
    except (ArithmeticError, LookupError, OSError, RecursionError, StopIteration, ValueError, csv.Error):
        return ResultTable.read(path)


def _rows(header: list[str], lines: Any) -> list[ResultRow]:
    if sorted(header) != sorted(COLUMNS):
        raise ValueError("other columns")
    names = [name for name in COLUMNS if name not in OWN]
    shared, own = (itemgetter(*map(header.index, some)) for some in (names, POINT_COLUMNS))
    readers = [_reader(name) for name in names]
    common = cache(lambda cells: {name: read(one) for name, read, one in zip(names, readers, cells, strict=True)})
    number, whole, keys, of_row = cache(_number), cache(_whole), cache(keys_in_line), header.index("row")
    found = []
    for cells in lines:
        if len(cells) != len(header):
            raise ValueError("another number of cells")
        fields, rows, texts = common(shared(cells)), keys(cells[of_row]), own(cells)
        count = len(rows)
        apart = [texts] if count == 1 else zip(*(numbers_in_line(text, count) for text in texts), strict=True)
        for row, (value, std, low, high, n, clusters) in zip(rows, apart, strict=True):
            made = object.__new__(ResultRow)
            vars(made).update(
                fields, row=row, value=number(value), std=number(std), ci_low=number(low), ci_high=number(high),
                n=whole(n), clusters=whole(clusters),
            )  # fmt: skip
            found.append(made)
    return found


def _reader(name: str) -> Callable[[str], Any]:
    if name in SHARED_COLUMNS:
        return _written_out()
    if name in ALLOWED:
        allowed = {text: text for text in ALLOWED[name]}
        return allowed.__getitem__
    return (lambda text: text or AS_DESCRIBED) if name == "variant" else str


def _written_out() -> Callable[[str], tuple[str, ...]]:
    """Return what reads the cells of a column whose lists are written out once, ``[2] first; second``."""
    known: dict[str, tuple[str, ...]] = {"": ()}

    def read(text: str) -> tuple[str, ...]:
        if text not in known:
            number, closed, written = text.partition("]")
            if not (closed and number[:1] == "[" and number[1:].isdecimal() and number[1:].isascii()):
                raise ValueError("no list of ours")
            if not written.startswith(" ") or f"{number}]" in known or "\n" in written:
                raise ValueError("a list that is written out nowhere, or twice")
            parts = (part.strip() for part in written.split(";"))
            known[text] = known[f"{number}]"] = tuple(part for part in parts if part)
        return known[text]

    return read


def _number(text: str) -> float | None:
    value = float(text) if text else math.nan
    return None if math.isnan(value) else value


def _whole(text: str) -> int | None:
    return int(float(text)) if text else None
