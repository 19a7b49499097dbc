"""No interval of a published share is a point or leaves [0, 1], nor that of a difference of two shares [-1, 1]."""

from pathlib import Path

import pytest

from leaklab.metrics.intervals import is_share
from leaklab.report.numbers.results import DIFFERENCE, ResultTable

TABLES = sorted(Path("results/small").glob("*/*.csv"))


def of_a_share(metric):
    return any(is_share(one) for one in (metric, metric.removesuffix("_mean"), metric.removesuffix("_median")))


def lowest(row):
    return -1 if DIFFERENCE in row.row else 0


@pytest.mark.parametrize("file", TABLES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_no_interval_of_a_share_is_a_point_or_leaves_its_range(file):
    rows = [row for row in ResultTable.read(file).rows if row.ci_low is not None and of_a_share(row.metric)]
    faults = [row for row in rows if not lowest(row) <= row.ci_low < row.ci_high <= 1]
    assert not faults, f"{len(faults)} of {len(rows)}, the first: {faults[0]}"


def test_there_are_tables_with_such_intervals():
    shares = sum(of_a_share(row.metric) for file in TABLES for row in ResultTable.read(file).rows)
    assert shares > 1000
