"""Questions of findings: asked of a part of the tables, the strongest attackers are those of the whole."""

from itertools import product

from leaklab.report.judge.attackers import worst_case
from leaklab.report.judge.indexed import Indexed
from leaklab.report.numbers.results import BLIND, KNOWING, PAPER, ResultRow, ResultTable
from leaklab.report.site.questions import Asked, StrongestAsAsked

METRICS = ("mse", "mse_median", "mse_mean", "psnr")


def table():
    """Return rows of three attackers in which the knowing one is missing here and there, and single values."""
    rows = []
    for place, (item, metric, defense, who) in enumerate(
        product(("one", "two"), METRICS, ("none", "lrp"), (PAPER, BLIND, KNOWING))
    ):
        if who == KNOWING and defense == "none" and item == "one":
            continue
        keys = {"defense": defense} | ({"by": "tailored"} if who == KNOWING else {})
        rows.append(ResultRow("lrp", item, keys, metric, float(place), attacker=who, runs=(f"{item}-{place % 2}",)))
        rows.append(ResultRow("lrp", item, {**keys, "update": 1}, "mse", 1.0, attacker=who, runs=(f"{item}-0",)))
    return ResultTable(tuple(rows))


def test_asked_by_metric_the_strongest_are_those_of_the_whole_table():
    whole = Indexed(worst_case(table())).by_metric
    asked = StrongestAsAsked(table())
    assert {key: asked[key] for key in asked} == dict(whole)
    assert len(asked) == len(whole)


def test_what_has_no_rows_is_not_there():
    assert StrongestAsAsked(table()).get(("one", "ssim")) is None
    assert StrongestAsAsked(table()).get(("three", "mse")) is None


def test_rows_of_an_item_are_those_that_a_selection_finds():
    asked = Asked(table())
    assert asked.by_item["lrp", "two"] == table().select(paper="lrp", item="two")
    assert asked.of("lrp") is asked.of("lrp")
