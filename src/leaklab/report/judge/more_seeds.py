"""More seeds of an item's cells from an item of their own: to a claim both are one sample.

A table whose trainings take hours is not made again for three more seeds of one column. They are an item beside it,
``table2-seeds`` beside ``table2``, with the same row keys, other seeds and nothing else. Means and standard deviations
of the two parts give those of the whole exactly.
"""

import math
from collections.abc import Hashable
from dataclasses import replace

from leaklab.report.numbers.results import ResultRow, ResultTable, identity

SUFFIX = "-seeds"


def with_more_seeds(table: ResultTable) -> ResultTable:
    """Return one paper's results in which the cells of an item also rest on the seeds of the item beside it.

    A cell without a number, or with the same runs on both sides, stays as it is.
    """
    beside = {_key(row, row.item.removesuffix(SUFFIX)): row for row in table.rows if row.item.endswith(SUFFIX)}
    return ResultTable(tuple(_pooled(row, beside.get(_key(row, row.item))) for row in table.rows))


def seeds_beside(row: ResultRow) -> str:
    """Return which seeds were added to a row; empty for none."""
    return row.note if row.note.startswith("with ") and row.note.endswith(SUFFIX) else ""


def _key(row: ResultRow, item: str) -> tuple[Hashable, ...]:
    return item, row.metric, row.attacker, row.variant, identity(row.row)


def _pooled(row: ResultRow, more: ResultRow | None) -> ResultRow:
    if more is None or row.value is None or more.value is None or set(row.runs) & set(more.runs):
        return row
    first, second = row.n or 0, more.n or 0
    if not (first and second) or not (_has_spread(row) and _has_spread(more)):
        return row
    count = first + second
    mean = (first * row.value + second * more.value) / count
    within = sum((n - 1) * (std or 0.0) ** 2 for n, std in ((first, row.std), (second, more.std)))
    between = first * (row.value - mean) ** 2 + second * (more.value - mean) ** 2
    return replace(
        row,
        value=mean,
        std=math.sqrt((within + between) / (count - 1)),
        ci_low=None,
        ci_high=None,
        n=count,
        clusters=count,
        runs=(*row.runs, *more.runs),
        substitutes=tuple(dict.fromkeys((*row.substitutes, *more.substitutes))),
        note=f"with {second} more seed{'s' * (second > 1)} of {more.item}",
    )


def _has_spread(row: ResultRow) -> bool:
    """Tell whether a row's spread is known; of one seed there is none to know."""
    return row.n == 1 or row.std is not None
