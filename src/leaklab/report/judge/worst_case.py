"""The results as the attacker who knows the defense makes them."""

from collections.abc import Iterable
from dataclasses import replace

from leaklab.report.numbers.results import ADAPTIVE, AS_PRINTED, ResultRow, ResultTable, identity

TRANSFORM = "transform"


def worst_case(results: ResultTable) -> ResultTable:
    """Return the rows with each one of the paper's attacker replaced by the adaptive attacker's, where there is one.

    The name of the transform is taken out of the row's keys, so that a claim finds the row by the paper's own keys.
    Cells without an adaptive attacker (no defense) keep the paper's.
    """
    adaptive = {_place(row): row for row in results.rows if row.attacker == ADAPTIVE}
    return ResultTable(tuple(_replaced(results.rows, adaptive)))


def _replaced(rows: Iterable[ResultRow], adaptive: dict[tuple[str, ...], ResultRow]) -> Iterable[ResultRow]:
    for row in rows:
        if row.attacker == ADAPTIVE:
            continue
        stronger = adaptive.get(_place(row)) if row.attacker == AS_PRINTED else None
        yield row if stronger is None else replace(stronger, row=_without_transform(stronger))


def _place(row: ResultRow) -> tuple[str, ...]:
    return row.paper, row.item, row.metric, row.variant, identity(_without_transform(row))


def _without_transform(row: ResultRow) -> dict[str, object]:
    return {key: value for key, value in row.row.items() if key != TRANSFORM}
