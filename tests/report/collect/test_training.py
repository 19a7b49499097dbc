"""Curves, goals, pooled runs and absent blocks: from sweeps that the test writes to result rows."""

import math
from pathlib import Path

import pandas as pd
import pytest

from leaklab.items.expand import expand
from leaklab.items.items import load_item
from leaklab.records.errors import UserError
from leaklab.records.files import write_json, write_table
from leaklab.report.collect.item import collect
from leaklab.report.numbers.results import ResultTable
from leaklab.specs.base import run_folder, run_id

ITEM = """
paper: lrp
item: table1
number: 1
kind: figure
title: Convergence
renderer: curves
runs:
  non-iid:
    stage: train
    dataset: mnist
    partition: {name: two-clients, seed: 0}
    model: mlp
    defense: [none, lrp]
    rates: [[0.01]]
    rounds: 3
    local_steps: 1
    batch_size: 4
    seeds: [1, 2, 3]
    evaluate: [test, train]
    evaluate_every: 1
    goal: {metric: train_accuracy, value: 80}
  other:
    like: non-iid
    dataset: cifar10
cells:
  row: {dataset: dataset, method: defense.name}
  better: higher
  unit: "%"
  series: [round, train_loss, test_accuracy]
scales:
  small: {}
  paper: {}
"""
NOT_HERE = ("  small: {}", '  small: {absent: {other: "data not here: CIFAR-10"}}')
NO_GOAL = ("    goal: {metric: train_accuracy, value: 80}\n", "")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for dataset in ("mnist", "cifar10"):
        write_json(Path(f"data/prepared/{dataset}.json"), {"name": dataset, "substitute": None})
    return tmp_path


def read_item(*changes):
    text = ITEM
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = Path("config/items/lrp/table1.yaml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return load_item(path)


def write_sweep(spec, losses, diverged=None, reached=None):
    """Write a sweep of one setting; replicate -> losses of its rounds, accuracies are 100 minus ten times the loss."""
    lines = []
    for replicate, of_rounds in enumerate(losses):
        for place, loss in enumerate(of_rounds):
            gone = (diverged or {}).get(replicate, math.inf) <= place
            lines.append(
                {
                    "replicate": replicate,
                    "seed": spec.seeds[replicate],
                    "rate_0": spec.rates[0][0],
                    "round": 10 * (place + 1),
                    "test_accuracy": math.nan if gone else 100 - 10 * loss,
                    "test_loss": math.nan if gone else loss,
                    "train_accuracy": math.nan if gone else 100 - 9 * loss,
                    "train_loss": math.nan if gone else loss,
                    "diverged": gone,
                    "steps": place,
                    **({"reached": (reached or {}).get(replicate, math.inf) <= place} if spec.goal else {}),
                }
            )
    # the order of the lines must not matter
    table = pd.DataFrame(lines).sort_values(["round", "replicate"], ascending=False)
    write_table(run_folder(spec) / "sweep.parquet", table)


STEADY = [[6.0, 4.0, 2.0], [5.0, 4.0, 3.0], [4.0, 4.0, 4.0]]


def collected(*changes, scale="small", losses=STEADY, **sweep):
    item = read_item(*changes)
    for run in expand(item, scale):
        write_sweep(run.spec, losses, **sweep)
    return collect(item, scale)


def found(results, metric, **keys):
    rows = [row for row in results.rows if row.metric == metric]
    return [row for row in rows if all(row.row.get(key) == value for key, value in keys.items())]


OWN = {"dataset": "mnist", "method": "lrp"}


class TestSeries:
    def points(self, results, metric):
        return [row for row in found(results, metric, **OWN) if row.is_point]

    def test_mean_deviation_and_number_of_replicates_in_each_tested_round(self):
        results = collected(NO_GOAL)
        losses = self.points(results, "train_loss")
        assert [row.row["index"] for row in losses] == [0, 1, 2]
        assert [row.value for row in losses] == pytest.approx([5, 4, 3])
        assert [row.std for row in losses] == pytest.approx([1, 0, 1])
        assert [row.n for row in losses] == [3, 3, 3]
        assert [row.value for row in self.points(results, "round")] == [10, 20, 30]
        assert {row.std for row in self.points(results, "round")} == {None}

    def test_points_mean_what_their_metric_means(self):
        results = collected(NO_GOAL)
        meanings = {(row.metric, row.unit, row.better) for row in results.rows if row.is_point}
        assert meanings == {("round", "", ""), ("train_loss", "", "lower"), ("test_accuracy", "%", "higher")}

    def test_the_number_after_the_last_round_stands_beside_the_curve(self):
        (final,) = [row for row in found(collected(NO_GOAL), "test_accuracy", **OWN) if not row.is_point]
        assert (final.value, final.n) == (pytest.approx(70), 3)

    def test_a_replicate_counts_until_it_diverges(self):
        losses = self.points(collected(NO_GOAL, diverged={0: 1}), "train_loss")
        assert [(row.value, row.n) for row in losses] == [(5, 3), (4, 2), (3.5, 2)]

    def test_where_all_have_diverged_there_is_a_round_without_a_number(self):
        results = collected(NO_GOAL, diverged={0: 1, 1: 2, 2: 2})
        assert [row.value for row in self.points(results, "train_loss")] == [5, 4, None]
        assert self.points(results, "train_loss")[-1].note == "diverged: all 3 runs"
        assert [row.value for row in self.points(results, "round")] == [10, 20, 30]

    def test_a_column_that_was_not_tested_is_named(self):
        with pytest.raises(UserError, match=r"cells\.series: the runs have no column 'margin': they have replicate"):
            collected(NO_GOAL, ("series: [round,", "series: [margin,"))


class TestLastRound:
    def test_replicates_that_stop_early_count_with_their_own_last_round(self):
        results = collected(losses=[[6.0, 1.0], [5.0], [4.0, 4.0, 3.0]], reached={0: 1, 1: 0, 2: 2})
        (final,) = [row for row in found(results, "test_accuracy", **OWN) if not row.is_point]
        assert (final.value, final.n) == (pytest.approx((90 + 50 + 70) / 3), 3)

    def test_accuracy_on_the_training_part_alone(self):
        item = read_item(
            NO_GOAL, ("evaluate: [test, train]", "evaluate: [train]"), ("[round, train_loss, test_accuracy]", "[]")
        )
        for run in expand(item, "small"):
            write_sweep(run.spec, STEADY)
            path = run_folder(run.spec) / "sweep.parquet"
            write_table(path, pd.read_parquet(path).drop(columns=["test_accuracy", "test_loss"]))
        results = collect(item, "small")
        assert {row.metric for row in results.rows} == {"train_accuracy"}
        assert found(results, "train_accuracy", **OWN)[0].value == pytest.approx(73)

    def test_accuracy_on_what_clients_set_aside(self):
        validated = ("evaluate: [test, train]", "evaluate: [validation]"), ("seed: 0}", "seed: 0, validation: 0.2}")
        item = read_item(NO_GOAL, NOT_HERE, *validated, ("[round, train_loss, test_accuracy]", "[validation_loss]"))
        for run in expand(item, "small"):
            write_sweep(run.spec, STEADY)
            path = run_folder(run.spec) / "sweep.parquet"
            names = {"train_accuracy": "validation_accuracy", "train_loss": "validation_loss"}
            tested = pd.read_parquet(path).drop(columns=["test_accuracy", "test_loss"])
            write_table(path, tested.rename(columns=names))
        results = collect(item, "small")
        (final,) = found(results, "validation_accuracy", **OWN)
        assert (final.value, final.unit, final.better) == (pytest.approx(73), "%", "higher")
        assert {row.better for row in found(results, "validation_loss")} == {"lower"}
        # what is not here would have had the same number
        assert {row.note for row in found(results, "validation_accuracy", dataset="cifar10")} == {
            "not run: data not here: CIFAR-10"
        }


class TestGoal:
    def test_the_median_of_the_first_rounds_that_reached_it(self):
        results = collected(reached={0: 0, 1: 2, 2: 1})
        (row,) = found(results, "rounds_to_target", **OWN)
        assert (row.value, row.std, row.n, row.unit, row.better) == (20, pytest.approx(10), 3, "rounds", "lower")
        assert [row.value for row in found(results, "capped_runs", **OWN)] == [0]

    def test_one_of_three_that_never_gets_there_leaves_the_median(self):
        results = collected(reached={0: 0, 2: 2})
        (row,) = found(results, "rounds_to_target", **OWN)
        assert (row.value, row.std, row.n, row.note) == (30, None, 3, "")
        (capped,) = found(results, "capped_runs", **OWN)
        assert (capped.value, capped.n) == (1, 3)

    def test_a_capped_median_is_no_number(self):
        (row,) = found(collected(reached={0: 0}), "rounds_to_target", **OWN)
        assert (row.value, row.note) == (None, "capped: 2 of 3 runs did not get there in 3 rounds")

    def test_a_middle_between_a_number_and_a_capped_run_is_no_number(self):
        changes = ("seeds: [1, 2, 3]", "seeds: [1, 2]")
        (row,) = found(collected(changes, losses=STEADY[:2], reached={0: 0}), "rounds_to_target", **OWN)
        assert row.value is None

    def test_a_diverged_replicate_never_reaches_it(self):
        (row,) = found(collected(reached={0: 0, 1: 2, 2: 1}, diverged={1: 0, 2: 0}), "rounds_to_target", **OWN)
        assert row.value is None

    def test_without_a_goal_there_is_no_such_number(self):
        results = collected(NO_GOAL)
        assert not found(results, "rounds_to_target") + found(results, "capped_runs")


class TestPooling:
    DEALS = ("partition: {name: two-clients, seed: 0}", "partition: {name: two-clients, seed: [0, 1]}")

    def test_runs_that_differ_in_the_seed_of_the_deal_only_share_a_cell(self):
        item = read_item(NO_GOAL, self.DEALS)
        own = [run for run in expand(item, "small") if (run.spec.dataset, run.spec.defense.name) == ("mnist", "lrp")]
        for run in expand(item, "small"):
            write_sweep(run.spec, [[6.0, run.spec.partition.seed + place] for place in range(3)])
        results = collect(item, "small")
        (row,) = [row for row in found(results, "test_accuracy", **OWN) if not row.is_point]
        # losses 0, 1, 2 and 1, 2, 3
        assert (row.value, row.n) == (pytest.approx(85), 6)
        assert row.runs == tuple(run_id(run.spec) for run in own)
        assert [row.n for row in found(results, "train_loss", **OWN)] == [6, 6]

    def test_runs_that_differ_in_anything_else_stay_apart(self):
        results = collected(NO_GOAL, ("local_steps: 1", "local_steps: [1, 2]"))
        final = [row for row in found(results, "test_accuracy", **OWN) if not row.is_point]
        assert [row.n for row in final] == [3, 3]

    def test_variants_stay_apart(self):
        draws = ("    stage: train", '    variant: "partition-seed={partition.seed}"\n    stage: train')
        results = collected(NO_GOAL, self.DEALS, draws)
        final = [row for row in found(results, "test_accuracy", **OWN) if not row.is_point]
        assert [(row.variant, row.n) for row in final] == [("partition-seed=0", 3), ("partition-seed=1", 3)]


class TestAbsent:
    def test_each_number_that_cannot_be_here_has_a_line_without_value_and_says_why(self):
        results = collected(NO_GOAL, NOT_HERE)
        rows = found(results, "test_accuracy", dataset="cifar10")
        assert [row.row for row in rows] == [{"dataset": "cifar10", "method": name} for name in ("none", "lrp")]
        for row in rows:
            assert (row.value, row.n, row.runs, row.substitutes) == (None, 0, (), ())
            assert row.note == "not run: data not here: CIFAR-10"

    def test_the_note_survives_the_csv(self, tmp_path):
        results = collected(NO_GOAL, NOT_HERE)
        results.write(tmp_path / "t.csv")
        assert ResultTable.read(tmp_path / "t.csv") == results

    def test_what_is_here_is_not_taken_for_a_stand_in(self):
        rows = found(collected(NO_GOAL, NOT_HERE), "test_accuracy", dataset="mnist")
        assert {row.substitutes for row in rows} == {()}

    def test_with_a_goal_the_rounds_are_missing(self):
        (row,) = found(collected(NOT_HERE), "rounds_to_target", dataset="cifar10", method="lrp")
        assert row.value is None

    def test_runs_that_would_share_a_cell_share_its_line(self):
        assert (
            len(
                found(collected(NO_GOAL, NOT_HERE, TestPooling.DEALS), "test_accuracy", **{**OWN, "dataset": "cifar10"})
            )
            == 1
        )

    def test_a_metric_has_the_name_under_which_the_paper_prints_it(self):
        names = ("  unit: ", "  metric_as: {other: {test_accuracy: test_accuracy_top1}}\n  unit: ")
        results = collected(NO_GOAL, NOT_HERE, names)
        assert len(found(results, "test_accuracy_top1", dataset="cifar10")) == 2
        assert not found(results, "test_accuracy", dataset="cifar10")
        there = collected(NO_GOAL, names)
        (row, *_) = found(there, "test_accuracy_top1", dataset="cifar10", method="lrp")
        assert row.value == pytest.approx(70)
        assert not found(there, "test_accuracy_top1", dataset="mnist")


def test_a_spent_budget_is_the_largest_of_the_replicates_and_stands_only_where_there_is_one():
    item = read_item()
    for run in expand(item, "small"):
        write_sweep(run.spec, STEADY)
    assert not [row for row in collect(item, "small").rows if row.metric == "epsilon"]
    for run in expand(item, "small"):
        path = run_folder(run.spec) / "sweep.parquet"
        table = pd.read_parquet(path)
        write_table(path, table.assign(epsilon=table["round"] / 10 + table["replicate"]))
    rows = [row for row in collect(item, "small").rows if row.metric == "epsilon"]
    assert [(row.value, row.n, row.better, row.unit) for row in rows] == [(5.0, 3, "lower", "")] * 4
