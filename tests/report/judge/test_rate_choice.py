"""The claims about the choice of the first rate: decided by the accuracies that one run of the procedure has."""

from dataclasses import replace
from pathlib import Path

import pytest

from leaklab.report.judge.claims import read_claims
from leaklab.report.judge.judging import judge_all
from leaklab.report.numbers.results import ResultRow, ResultTable

PAPERS = Path(__file__).parents[3] / "config/papers"
CLAIMS = [claim for claim in read_claims(PAPERS / "claims.csv") if claim.item == "table2-rates"]
USED = {"mnist": 0.01, "cifar10": 0.05, "cifar100": 0.05}
ABSENT = ResultRow(
    "lrp", "table2-rates", {"dataset": "imagenet", "eta0": 0.1, "used": 0.1}, "validation_accuracy", None,
    n=0, clusters=0, note="not run: data not here",
)  # fmt: skip


def table(**best):
    """Return accuracies of one seed: the best rate has most, of the others the nearer ones and the larger ones."""
    rows = [
        ResultRow(
            "lrp", "table2-rates", {"dataset": dataset, "eta0": rate, "used": used}, "validation_accuracy",
            60.0 - abs(place - order.index(best[dataset])) + place / 10, n=1, clusters=1, unit="%", better="higher",
        )
        for dataset, used in USED.items()
        for order in [(0.001, 0.01, 0.1) if used == 0.01 else (0.001, 0.01, 0.05, 0.1)]
        for place, rate in enumerate(order)
    ]  # fmt: skip
    return ResultTable((*rows, ABSENT))


def words(results):
    return {verdict.id: verdict.verdict for verdict in judge_all(CLAIMS, results, ResultTable(), scale="small")}


@pytest.mark.parametrize(
    ("best", "printed", "used"),
    [
        ({"mnist": 0.01, "cifar10": 0.01, "cifar100": 0.01}, "reproduced", "not reproduced"),
        ({"mnist": 0.01, "cifar10": 0.05, "cifar100": 0.05}, "not reproduced", "reproduced"),
        ({"mnist": 0.1, "cifar10": 0.05, "cifar100": 0.05}, "not reproduced", "not reproduced"),
    ],
)
def test_one_seed_decides_what_the_procedure_chooses(best, printed, used):
    assert words(table(**best)) == {"LRP-63": printed, "LRP-64": used}


def test_a_candidate_that_diverged_is_named_and_the_others_are_judged():
    rows = [
        replace(row, value=None, n=0, clusters=0, note="diverged: all 1 run") if row.row["eta0"] == 0.1 else row
        for row in table(mnist=0.01, cifar10=0.05, cifar100=0.05).rows
    ]
    found = {one.id: one for one in judge_all(CLAIMS, ResultTable(tuple(rows)), ResultTable(), scale="small")}
    assert {name: one.verdict for name, one in found.items()} == {"LRP-63": "reproduced", "LRP-64": "reproduced"}
    assert "not at hand: MNIST (used 0.01, rate 0.1)" in found["LRP-64"].judgement.sentence


def test_accuracies_of_chance_are_no_premise():
    guessing = ResultTable(tuple(
        row if row.value is None else replace(row, value=row.value - 50)
        for row in table(mnist=0.01, cifar10=0.01, cifar100=0.01).rows
    ))  # fmt: skip
    assert set(words(guessing).values()) == {"no premise"}
