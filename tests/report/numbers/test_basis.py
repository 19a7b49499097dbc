"""What numbers rest on, in words."""

import pytest

from leaklab.report.numbers.results import ResultRow
from leaklab.report.numbers.words import sampled, stand_ins


def row(n=1, clusters=1, value=1.0, keys=None, **more):
    return ResultRow("p", "t", keys or {}, "m", value, n=n, clusters=clusters, **more)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([row(3, 3, better="higher")], "3 seeds"),
        ([row(1, 1, better="higher")], "1 seed"),
        ([row(20, 20, attacker="paper", better="higher")], "20 updates"),
        ([row(8, 2, attacker="knowing")], "8 values of 2 updates"),
        ([row(3, 3, better="lower"), row(1, 1, better="lower")], "1 to 3 seeds"),
        ([row(1000, 1000)], "1000 repetitions"),
        ([row(1, 1)], ""),
        ([row(None, None)], ""),
        ([row(0, 0, value=None, better="lower")], ""),
        ([row(3, 3, better="lower"), row(9, 9, keys={"selection": "mean-image"})], "3 seeds"),
    ],
)
def test_updates_seeds_and_repetitions(rows, words):
    assert sampled(rows) == words


def test_stand_ins_are_named_once_and_reduced_settings_are_not():
    names = ("digits in place of mnist", "reduced setting of scale small")
    assert stand_ins([row(substitutes=names), row(substitutes=names[:1]), row()]) == names[:1]
