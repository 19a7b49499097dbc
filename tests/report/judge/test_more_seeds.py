"""Cells whose seeds are of two items: the sample that both are together."""

from dataclasses import replace

import numpy as np
import pytest

from leaklab.metrics.statistics import summarise
from leaklab.records.config import SCALES
from leaklab.records.record import canonical_json
from leaklab.report.judge.claims import Claim
from leaklab.report.judge.draws import SUFFIX, seeds_beside, with_more_seeds
from leaklab.report.judge.judging import judge
from leaklab.report.numbers.results import ResultRow, ResultTable
from leaklab.specs.training import TrainSpec

ACCURACIES = np.array([51.2, 49.8, 53.1, 50.4, 52.7, 48.9, 51.5])


def row(item, values, method="lrp", runs=("a",)):
    found = summarise(values)
    return ResultRow(
        *("lrp", item, {"method": method}, "test_accuracy", found.mean),
        std=found.std,
        n=found.n,
        clusters=found.clusters,
        runs=runs,
        better="higher",
        unit="%",
    )


@pytest.mark.parametrize("first", [1, 2, 3, 6])
def test_two_parts_are_the_sample_of_all_values(first):
    parts = (row("table2", ACCURACIES[:first]), row(f"table2{SUFFIX}", ACCURACIES[first:], runs=("b",)))
    pooled, untouched = with_more_seeds(ResultTable(parts)).rows
    whole = summarise(ACCURACIES)
    assert pooled.value == pytest.approx(whole.mean, abs=1e-12)
    assert pooled.std == pytest.approx(whole.std, abs=1e-12)
    assert (pooled.n, pooled.item, pooled.runs) == (7, "table2", ("a", "b"))
    assert untouched == parts[1]


@pytest.mark.parametrize(
    "spoil",
    [
        {"row": {"method": "ada-lrp"}},
        {"metric": "test_loss"},
        {"variant": "partition-seed=1"},
        {"runs": ("a",)},
        {"value": None},
        {"std": None},
    ],
)
def test_what_is_not_the_same_cell_or_no_sample_is_left_alone(spoil):
    parts = (row("table2", ACCURACIES[:3]), replace(row(f"table2{SUFFIX}", ACCURACIES[3:], runs=("b",)), **spoil))
    assert with_more_seeds(ResultTable(parts)).rows[0] == parts[0]


def test_a_claim_is_decided_by_more_seeds_and_its_sentence_says_so():
    claim = Claim("LRP-08", "lrp", "table2", "statement", "T('table2','test_accuracy',method='lrp')<=53")
    three = row("table2", ACCURACIES[:3])
    alone = judge(claim, ResultTable((three,)), ResultTable())
    both = judge(claim, ResultTable((three, row(f"table2{SUFFIX}", ACCURACIES[3:], runs=("b",)))), ResultTable())
    assert (alone.verdict, both.verdict) == ("undecided", "reproduced")
    assert "with 4 more seeds of table2-seeds" in both.judgement.sentence
    assert "more seeds" not in alone.judgement.sentence


def test_only_a_note_of_seeds_is_one():
    assert seeds_beside(replace(row("table2", ACCURACIES), note="capped: 1 of 3 runs")) == ""


def test_no_seed_of_an_item_is_run_again_by_the_item_beside_it(whole_plan):
    items = whole_plan.items
    pairs = [(key, key.removesuffix(SUFFIX)) for key in items if key.endswith(SUFFIX)]
    for more, first in pairs:
        assert first in items, more
        for scale in SCALES:
            ours, theirs = (_seeds(whole_plan.runs.get((scale, key), [])) for key in (more, first))
            for setting, seeds in ours.items():
                assert setting in theirs, (more, scale, setting)
                assert not seeds & theirs.get(setting, set()), (more, scale, setting)


def _seeds(runs):
    """Return setting -> (seed of the deal, seed of the training) of each replicate."""
    found = {}
    for run in runs:
        if isinstance(run.spec, TrainSpec):
            rest = run.spec.model_dump(mode="json", exclude={"seeds": True, "partition": {"seed"}})
            for seed in run.spec.seeds:
                found.setdefault(canonical_json(rest), set()).add((run.spec.partition.seed, seed))
    return found
