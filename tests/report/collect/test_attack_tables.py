"""What tables of attacks say of shares, single values and silent updates, on scores that are written by the test."""

import math
import statistics
from pathlib import Path

import pandas as pd
import pytest

from leaklab.items.expand import expand
from leaklab.items.items import Item
from leaklab.metrics.intervals import outcomes_interval
from leaklab.metrics.silence import silence_line
from leaklab.records.files import write_json, write_table
from leaklab.report.collect.item import collect
from leaklab.report.judge.evidence import Evidence
from leaklab.report.judge.indexed import Indexed
from leaklab.report.numbers.results import ResultTable, identity
from leaklab.report.numbers.words import gaps
from leaklab.specs.base import run_folder

OWN = "best-by-loss"
BLOCK = {
    "dataset": "mnist",
    "images": {"count": 8, "seed": 0},
    "model": "dlg-lenet",
    "defense": ["none", "lrp"],
    "attack": "dlg",
    "transform": ["none", "closed-form-scale"],
    "iterations": 5,
    "metrics": ["mse", "exact-share", "certified"],
    "skip": [{"defense": "none", "transform": "closed-form-scale"}],
}
CELLS = {
    "row": {"defense": "defense.name"},
    "metrics": {
        "mse": {"better": "higher"},
        "label_correct": {"better": "lower"},
        "label_recovery": {"better": "lower"},
        "exact_share": {"better": "lower"},
        "certified": {"better": "lower"},
    },
}
ITEM = {
    "paper": "lrp",
    "item": "figure2",
    "number": 2,
    "kind": "figure",
    "title": "Attacks",
    "renderer": "image-grid",
    "headline": "mse",
    "runs": {"attack": BLOCK},
    "cells": CELLS,
    "scales": {"small": {}, "paper": {}},
}
LEVELS = {"none": 0.01, "lrp": 0.5, "knowing": 0.1}
MEAN_IMAGE = 1.0


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("mnist", "digits"):
        write_json(Path(f"data/prepared/{name}.json"), {"name": name, "substitute": None})


def item_with(cells=(), **block):
    return Item.model_validate({**ITEM, "runs": {"attack": {**BLOCK, **block}}, "cells": {**CELLS, **dict(cells)}})


def means(**block):
    return item_with({"over_images": "mean"}, **block)


def place_of(run):
    """Return whose attack a run is: none (nobody defends), lrp (the paper's attack), knowing (its scale is known)."""
    attack = run.spec.attack
    return attack.capture.defense.name if attack.transform.name == "none" else "knowing"


def batches(count=8, size=1, draws=1, first=100):
    """Return the (trial, image, draw) of every private image."""
    updates = [range(first + size * number, first + size * (number + 1)) for number in range(count)]
    trials = [(images, draw) for images in updates for draw in range(draws)]
    return [(trial, image, draw) for trial, (images, draw) in enumerate(trials) for image in images]


def write(run, places, values, silent=(), reasons=None, references=("mse",)):
    """Write a run's scores and cards: what a metric is of each private image, and of the mean image."""
    lines = []
    for metric, own in values.items():
        kinds = {OWN: own, **({"mean-image": [MEAN_IMAGE] * len(places)} if metric in references else {})}
        for selection, some in kinds.items():
            for (trial, image, draw), value in zip(places, some, strict=True):
                if trial not in silent and value is not None:
                    lines.append([trial, image, draw, selection, metric, value])
    table = pd.DataFrame(lines, columns=["trial", "image", "draw", "selection", "metric", "value"])
    trials = len({trial for trial, _, _ in places})
    facts = {"not_available": {}, "trials": trials}
    if silent:
        table = pd.concat([table, pd.DataFrame([silence_line(list(silent), [0] * trials)])], ignore_index=True)
        facts["no_information"] = reasons or {"zero update": len(silent)}
    write_table(run_folder(run.spec) / "scores.csv", table)
    write_json(run_folder(run.spec) / "cards.json", facts)


def errors(run, count, spread=0.001):
    return [LEVELS[place_of(run)] + spread * place for place in range(count)]


def collected(item, of=None, silent=None, places=None, reasons=None):
    """Collect an item; ``of`` and ``silent`` say more by ``place_of``."""
    places = places or batches()
    for run in expand(item, "small"):
        name = place_of(run)
        values = {"mse": errors(run, len(places)), **((of or {}).get(name) or (of or {}).get("all") or {})}
        write(run, places, values, (silent or {}).get(name, ()), reasons)
    return collect(item, "small")


def rows_of(results, metric, attacker=None, **keys):
    found = [row for row in results.rows if row.metric == metric and attacker in (None, row.attacker)]
    return [row for row in found if all(row.row.get(key) == value for key, value in keys.items())]


def shown(results, metric, attacker="paper", **keys):
    """Return the one row of an attacker's own result."""
    (row,) = [row for row in rows_of(results, metric, attacker, **keys) if set(row.aside) <= keys.keys()]
    return row


class TestShares:
    @pytest.mark.parametrize("hits", [0, 1, 7, 8])
    @pytest.mark.parametrize("metric", ["label_correct", "exact_share"])
    def test_their_interval_is_exact_in_range_and_never_a_point(self, metric, hits):
        outcomes = [float(place < hits) for place in range(8)]
        row = shown(collected(item_with(), {"all": {metric: outcomes}}), f"{metric}_mean", defense="lrp")
        assert (row.value, row.n, row.clusters) == (hits / 8, 8, 8)
        assert (row.ci_low, row.ci_high) == pytest.approx(outcomes_interval(hits, 8))
        assert 0 <= row.ci_low < row.ci_high <= 1

    def test_of_batches_it_holds_whatever_law_the_fractions_have(self):
        shares = [1.0, 0.0] * 8
        results = collected(means(), {"all": {"label_correct": shares}}, places=batches(size=2))
        row = shown(results, "label_correct", defense="lrp")
        assert (row.value, row.n, row.clusters) == (0.5, 16, 8)
        # all eight updates have one of two: Student's interval would be a point
        assert 0 < row.ci_low < 0.5 < row.ci_high < 1

    def test_another_name_in_print_makes_them_no_less_shares(self):
        named = item_with({"over_images": "mean", "metric_as": {"attack": {"label_correct": "label_recovery"}}})
        row = shown(collected(named, {"all": {"label_correct": [1.0] * 8}}), "label_recovery", defense="none")
        assert (row.ci_low, row.ci_high) == pytest.approx(outcomes_interval(8, 8))

    def test_every_one_has_a_mean_and_none_a_median(self):
        shares = {"label_correct": [1.0] * 8, "exact_share": [0.0] * 8, "certified": [0.0] * 8}
        names = {row.metric for row in collected(item_with(), {"all": shares}).rows}
        assert {f"{name}_mean" for name in shares} <= names
        assert not {f"{name}_median" for name in shares} & names

    @pytest.mark.parametrize(
        ("difference", "attacker"),
        [("knowing - paper", ""), ("defended - undefended", "paper"), ("attack - best guess", "paper")],
    )
    def test_their_differences_lie_between_minus_one_and_one(self, difference, attacker):
        of = {
            "none": {"exact_share": [1.0] * 8},
            "lrp": {"exact_share": [0.0] * 8},
            "knowing": {"exact_share": [1.0] * 8},
        }
        item = item_with()
        for run in expand(item, "small"):
            values = {"mse": errors(run, 8), **of[place_of(run)]}
            write(run, batches(), values, references=("mse", "exact_share"))
        row = shown(collect(item, "small"), "exact_share_mean", attacker, defense="lrp", difference=difference)
        assert abs(row.value) == 1
        assert -1 <= row.ci_low < row.ci_high <= 1

    def test_the_strongest_by_a_share_is_still_the_one_with_the_larger_share(self):
        of = {"lrp": {"exact_share": [0.0] * 8}, "knowing": {"exact_share": [1.0] * 2 + [0.0] * 6}}
        results = collected(item_with(), of)
        assert shown(results, "exact_share_mean", "knowing", defense="lrp").row["by"] == "dlg, closed form scale"


class TestSingleValuesOfMeans:
    @staticmethod
    def singles(results, metric, attacker="paper", **keys):
        found = rows_of(results, metric, attacker, **keys)
        return {row.row["update"]: row for row in found if row.aside == ("update",)}

    @pytest.mark.parametrize(
        "places", [batches(), batches(size=3), batches(count=4, draws=2, size=2), batches(count=1, draws=7)]
    )
    def test_their_mean_is_the_number_and_they_are_as_many_as_it_has_clusters(self, places):
        item = means()
        results = collected(item, places=places)
        for attacker in ("paper", "knowing"):
            mean = shown(results, "mse", attacker, defense="lrp")
            own = self.singles(results, "mse", attacker, defense="lrp")
            assert statistics.fmean(row.value for row in own.values()) == pytest.approx(mean.value)
            assert list(own) == list(range(1, mean.clusters + 1))
            assert sum(row.n for row in own.values()) == mean.n
            assert {(row.runs, row.clusters, row.better) for row in own.values()} == {(mean.runs, 1, "higher")}

    def test_a_number_is_that_of_the_same_images_in_all_rows(self):
        item = means(images={"count": 8, "seed": [0, 1]}, skip=BLOCK["skip"])
        for run in expand(item, "small"):
            seed = run.spec.attack.capture.images.seed
            # the defended clients' second half comes first
            first = 100 + 50 * (seed if place_of(run) == "none" else 1 - seed)
            places = batches(first=first)
            write(run, places, {"mse": [image / 1000 for _, image, _ in places]})
        results = collect(item, "small")
        undefended, defended = (self.singles(results, "mse", defense=defense) for defense in ("none", "lrp"))
        assert undefended.keys() == defended.keys() == set(range(1, 17))
        assert {key: row.value for key, row in undefended.items()} == {key: row.value for key, row in defended.items()}

    def test_images_of_another_data_set_have_other_numbers(self):
        item = item_with({"over_images": "mean", "row": {"dataset": "dataset"}}, dataset=["mnist", "digits"],
                         defense="none", skip=[], transform="none")  # fmt: skip
        results = collected(item)
        first, second = (self.singles(results, "mse", dataset=name) for name in ("mnist", "digits"))
        assert len(first) == len(second) == 8
        assert not first.keys() & second.keys()

    def test_updates_of_the_same_images_twice_are_told_apart(self):
        item = means(images={"count": 8, "seed": [0, 1]}, skip=BLOCK["skip"])
        for run in expand(item, "small"):
            write(run, batches(count=1), {"mse": errors(run, 1)})
        results = collect(item, "small")
        assert len(self.singles(results, "mse", defense="none")) == shown(results, "mse", defense="none").clusters == 2

    def test_no_two_rows_are_the_same_number_and_the_mean_is_found_alone(self, tmp_path):
        results = collected(means(), {"all": {"exact_share": [0.0] * 8}})
        names = [(row.metric, row.attacker, identity(row.row)) for row in results.rows]
        assert len(set(names)) == len(names)
        results.write(tmp_path / "table.csv")
        lines = (tmp_path / "table.csv").read_text().splitlines()
        assert ResultTable.read(tmp_path / "table.csv").rows[0].row == results.rows[0].row
        # of two settings the paper's and of one the knowing one's, each of two metrics: one line
        assert sum('""update""' in line for line in lines) == 5

    def test_a_claim_gets_the_mean_and_its_difference_in_pairs(self, tmp_path):
        item = means()
        for run in expand(item, "small"):
            # images differ far more from each other than the attackers do
            write(run, batches(), {"mse": errors(run, 8, spread=1.0)})
        collect(item, "small").write(tmp_path / "table.csv")
        asked = Evidence(Indexed(ResultTable.read(tmp_path / "table.csv")))
        for attacker in ({}, {"attacker": "knowing"}):
            apart = asked.T("figure2", "mse", defense="lrp", **attacker) - asked.T("figure2", "mse", defense="none")
            assert apart.value == pytest.approx(LEVELS["knowing" if attacker else "lrp"] - LEVELS["none"])
            assert apart.high - apart.low < 1e-6

    def test_items_with_single_images_have_none(self):
        assert not [row for row in collected(item_with()).rows if "update" in row.row]


class TestBesideOneBlock:
    """Each attack of a cell is put beside that of the block ``cells.against``, in pairs."""

    @staticmethod
    def item(**cells):
        told = {**BLOCK, "stage": "attack", "defense": "lrp", "transform": "closed-form-scale", "skip": []}
        runs = {"attack": {**BLOCK, "transform": "none", "skip": []}, "told": told}
        return Item.model_validate({**ITEM, "runs": runs, "cells": {**CELLS, "over_images": "mean", **cells}})

    def test_a_difference_is_the_mean_of_the_pairs_and_names_both_runs(self):
        results = collected(self.item(against="attack"))
        (row,) = [row for row in rows_of(results, "mse", "") if set(row.aside) == {"tried", "difference"}]
        assert (row.row["tried"], row.row["difference"]) == ("dlg, closed form scale", "tried - attack")
        # images differ far less within pairs than between them
        assert row.value == pytest.approx(LEVELS["knowing"] - LEVELS["lrp"])
        assert row.ci_high - row.ci_low < 1e-6
        assert len(row.runs) == 2

    def test_one_who_read_other_updates_has_no_pair(self):
        item = self.item(against="attack")
        for run in expand(item, "small"):
            write(run, batches(first=300 if place_of(run) == "knowing" else 100), {"mse": errors(run, 8)})
        assert not [row for row in collect(item, "small").rows if set(row.aside) == {"tried", "difference"}]

    def test_without_a_block_there_are_none(self):
        assert not [row for row in collected(self.item()).rows if set(row.aside) == {"tried", "difference"}]

    def test_a_block_that_is_not_there_is_refused(self):
        with pytest.raises(ValueError, match="no block 'learnt': attack, told"):
            self.item(against="learnt")


ALL = range(8)


class TestSilentUpdates:
    def test_they_are_counted_once_an_attack_with_their_reasons(self):
        reasons = {"zero update": 2, "diverged training": 1}
        results = collected(item_with(), silent={"lrp": [1, 2, 5], "knowing": [1, 2, 5]}, reasons=reasons)
        row = shown(results, "no_information", defense="lrp")
        assert (row.value, row.n, row.clusters, row.unit, row.better) == (3, 8, 8, "updates", "higher")
        assert row.note == "3 of 8 updates say nothing of their samples: zero update (2), diverged training (1)"
        tried = {row.row["tried"]: row for row in rows_of(results, "no_information", "", defense="lrp")}
        assert tried.keys() == {"dlg", "dlg, closed form scale"}
        assert {(row.value, row.note) for row in tried.values()} == {(row.value, row.note)}
        assert not rows_of(results, "no_information", defense="none")

    def test_one_of_them_says_so_in_the_singular(self):
        row = shown(collected(item_with(), silent={"lrp": [3]}), "no_information", defense="lrp")
        assert row.note == "1 of 8 updates says nothing of its samples: zero update"

    @pytest.mark.parametrize("item", [item_with, means])
    def test_their_count_is_no_metric(self, item):
        results = collected(item(), silent={"lrp": [1, 2, 5], "knowing": [1]})
        names = {row.metric for row in results.rows if "no_information" in row.metric}
        assert names == {"no_information"}
        own = rows_of(results, "no_information")
        assert {row.aside for row in own} == {(), ("tried",)}
        assert "knowing" not in {row.attacker for row in own}

    @pytest.mark.parametrize("item", [item_with, means])
    def test_where_all_say_nothing_that_is_the_only_row(self, item):
        results = collected(item(), silent={"lrp": ALL, "knowing": ALL})
        assert {row.metric for row in rows_of_defense(results, "lrp")} == {"no_information"}
        assert shown(results, "no_information", defense="lrp").note.startswith("8 of 8 updates say nothing")
        assert shown(results, f"mse{'' if item is means else '_median'}", defense="none").n == 8

    def test_of_several_runs_all_are_counted(self):
        item = item_with(images={"count": 8, "seed": [0, 1]})
        for run in expand(item, "small"):
            second = bool(run.spec.attack.capture.images.seed)
            silent = ALL if second and place_of(run) == "lrp" else ()
            write(run, batches(first=500 if second else 100), {"mse": errors(run, 8)}, silent)
        row = shown(collect(item, "small"), "no_information", defense="lrp")
        assert row.note == "8 of 16 updates say nothing of their samples: zero update"

    def test_a_reader_of_the_table_is_told(self):
        (sentence,) = [one for one in gaps(collected(item_with(), silent={"lrp": [3]})) if "say" in one]
        assert sentence == "updates that say nothing of their samples: 1 of 8 at defense lrp"


def rows_of_defense(results, defense):
    return [row for row in results.rows if row.row["defense"] == defense]


class TestCommonUpdates:
    @staticmethod
    def left(results, attacker="paper"):
        return shown(results, "protection_left", attacker, defense="lrp")

    @pytest.mark.parametrize("which", [{"lrp": [0, 7]}, {"none": [0, 7]}, {"none": [0], "lrp": [7]}])
    def test_protection_is_that_of_the_updates_that_both_have(self, which):
        row = self.left(collected(item_with(), silent=which))
        common = [LEVELS["lrp"] + 0.001 * place for place in range(1, 7)]
        before = [LEVELS["none"] + 0.001 * place for place in range(1, 7)]
        expected = (statistics.median(common) - statistics.median(before)) / (1 - statistics.median(before))
        assert row.value == pytest.approx(100 * expected)
        assert (row.n, row.clusters) == (6, 6)
        assert row.note == "over 6 of 8 updates: the others say nothing"

    def test_so_is_what_a_defense_changes(self):
        results = collected(item_with(), silent={"lrp": [0, 7]})
        row = shown(results, "mse_median", defense="lrp", difference="defended - undefended")
        assert (row.value, row.n) == (pytest.approx(LEVELS["lrp"] - LEVELS["none"]), 6)
        assert row.note == "over 6 of 8 updates: the others say nothing"

    def test_where_all_are_common_nothing_is_said(self):
        results = collected(item_with())
        assert self.left(results).note == ""
        assert shown(results, "mse_median", defense="lrp", difference="defended - undefended").note == ""

    def test_those_that_both_lack_are_among_all(self):
        row = self.left(collected(item_with(), silent={"none": [0, 7], "lrp": [0, 7]}))
        assert row.note == "over 6 of 8 updates: the others say nothing"

    def test_a_value_that_is_missing_for_another_reason_is_not_called_silence(self):
        guessed = {"label_correct": [None, *[1.0] * 7]}
        results = collected(item_with(), {"none": {"label_correct": [1.0] * 8}, "lrp": guessed})
        row = shown(results, "label_correct_mean", defense="lrp", difference="defended - undefended")
        assert (row.n, row.note) == (7, "over 7 of 8 updates: the others have no value")

    def test_without_a_common_update_there_is_none(self):
        results = collected(item_with(), silent={"none": range(4), "lrp": range(4, 8), "knowing": range(4, 8)})
        assert not rows_of(results, "protection_left")
        assert not rows_of(results, "mse_median", difference="defended - undefended")

    def test_other_images_are_still_no_partner_however_many_are_silent(self):
        item = item_with()
        for run in expand(item, "small"):
            other = place_of(run) != "none"
            write(run, batches(first=103 if other else 100), {"mse": errors(run, 8)}, [0] if other else [])
        assert not rows_of(collect(item, "small"), "protection_left")


class TestNoValue:
    def test_a_label_that_nobody_guessed(self):
        row = shown(collected(item_with(metrics=["mse"])), "label_correct_mean", defense="lrp")
        assert (row.value, row.n) == (None, 0)
        assert row.note.partition(":")[0] == "not guessed"

    def test_an_attack_that_proves_nothing(self):
        results = collected(means(metrics=["mse", "certified", "false-certificate"]))
        for metric in ("certified", "false_certificate"):
            row = shown(results, metric, defense="lrp")
            assert (row.value, row.note.partition(":")[0]) == (None, "proves nothing")
        assert not rows_of(collected(means(metrics=["mse"])), "certified")

    def test_where_there_are_values_nothing_is_said(self):
        results = collected(item_with(), {"all": {"label_correct": [1.0] * 8, "certified": [0.0] * 8}})
        assert {row.note for row in results.rows} == {""}

    def test_where_no_update_speaks_it_is_not_the_attack_that_is_to_blame(self):
        results = collected(item_with(), silent={"lrp": ALL, "knowing": ALL})
        assert not [row for row in rows_of_defense(results, "lrp") if row.value is None]


def test_the_interval_of_other_means_is_students():
    row = shown(collected(means()), "mse", defense="lrp")
    values = [LEVELS["lrp"] + 0.001 * place for place in range(8)]
    reach = 2.3646242516 * statistics.stdev(values) / math.sqrt(8)
    assert (row.ci_low, row.ci_high) == pytest.approx((row.value - reach, row.value + reach))
