"""Result rows of checks: the numbers as the check gives them, under the item's row keys and the numbers' own."""

import math
from collections.abc import Iterator, Sequence

from leaklab.items.expand import PlannedRun
from leaklab.report.collect.source import Source
from leaklab.report.numbers.results import ResultRow
from leaklab.specs.attack import CheckSpec
from leaklab.specs.base import run_folder, run_id
from leaklab.theory.base import read_numbers


def check_rows(source: Source, runs: Sequence[PlannedRun]) -> Iterator[ResultRow]:
    """Yield one row per number; a number of a curve carries its place as ``index``."""
    for run in runs:
        assert isinstance(run.spec, CheckSpec)
        keys, substitutes = source.row(run), source.substitutes(run.spec)
        for one in read_numbers(run_folder(run.spec) / "numbers.csv"):
            place = {} if one.index is None else {"index": one.index}
            yield source.number(
                one.metric,
                row={**keys, **one.row, **place},
                value=None if math.isnan(one.value) else one.value,
                std=one.std,
                n=one.n,
                clusters=one.n,
                variant=run.variant,
                substitutes=substitutes,
                runs=(run_id(run.spec),),
            )
