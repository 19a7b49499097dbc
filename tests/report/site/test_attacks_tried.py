"""All attacks that were tried and the protection left, as an item's page shows them."""

import json
from dataclasses import replace

import pytest

from leaklab.items.items import load_items
from leaklab.planning.plan import build_plan
from leaklab.report.numbers.results import ResultRow, ResultTable, identity
from leaklab.report.site.attacks_tried import (
    Left,
    ProtectionLeft,
    TriedAttack,
    Unbroken,
    bounds_of,
    protection_left,
    tried_attacks,
    unbroken,
)
from leaklab.report.site.documents import _unbroken
from leaklab.specs.attack import ScoreSpec


def row(value, attacker="", metric="psnr_median", low=None, high=None, note="", **keys):
    return ResultRow("lrp", "figure2", keys, metric, value, ci_low=low, ci_high=high, n=9, clusters=9, unit="dB",
                     better="lower", attacker=attacker, runs=("r",), note=note)  # fmt: skip


RESULTS = ResultTable((
    row(12.0, "paper", defense="lrp"),
    row(18.0, "knowing", defense="lrp", by="dlg, profiled scale"),
    row(12.0, defense="lrp", tried="dlg"),
    row(18.0, low=17.0, high=19.0, defense="lrp", tried="dlg, profiled scale"),
    row(0.3, metric="ssim_median", defense="lrp", tried="dlg"),
    row(0.4, metric="ssim_median", defense="lrp", tried="dlg, profiled scale"),
    row(6.0, defense="lrp", difference="knowing - paper"),
    row(20.0, "knowing", defense="none", by="dlg"),
    row(20.0, defense="none", tried="dlg"),
    row(130.0, "paper", "protection_left", 90.0, 170.0, defense="lrp"),
    row(40.0, "knowing", "protection_left", -10.0, 60.0, defense="lrp", by="dlg, profiled scale"),
    row(None, "paper", "protection_left", note="no premise: nothing to protect", defense="soteria"),
))  # fmt: skip


def test_all_attacks_by_the_headline_metric_where_several_were_tried():
    dlg, profiled = tried_attacks(RESULTS, "psnr")
    assert (dlg.row, dlg.attack, dlg.value, dlg.interval) == ({"defense": "lrp"}, "dlg", 12.0, None)
    assert (profiled.attack, profiled.value, profiled.interval) == ("dlg, profiled scale", 18.0, (17.0, 19.0))
    assert (dlg.strongest, profiled.strongest) == (False, True)


@pytest.mark.parametrize("headline", ["", "mse"])
def test_without_a_headline_in_the_table_nothing_is_shown(headline):
    assert tried_attacks(RESULTS, headline) == ()


def test_protection_left_is_told_between_nothing_and_all_with_its_interval():
    lrp, soteria = protection_left(RESULTS)
    assert lrp.row == {"defense": "lrp"}
    assert lrp.by_attacker == {"paper": Left(100.0, (90.0, 100.0)), "knowing": Left(40.0, (0.0, 60.0))}
    assert soteria.by_attacker == {"paper": Left(None, None, "no premise: nothing to protect")}


def left(low, defense="lrp", attacker="knowing"):
    return ProtectionLeft({"defense": defense}, {attacker: Left(80.0, None if low is None else (low, 100.0))})


def tried(attack, defense="lrp"):
    return TriedAttack({"defense": defense}, attack, "mse", "", 0.1, None, strongest=False)


def test_a_setting_is_not_broken_where_more_than_half_is_surely_left_after_all_that_was_tried():
    assert unbroken([left(50.1)], [tried("ggl"), tried("idlg"), tried("ggl", "none")], {}) == (
        Unbroken({"defense": "lrp"}, 80.0, (50.1, 100.0), ("ggl", "idlg")),
    )


@pytest.mark.parametrize(
    "setting", [left(50.0), left(None), left(90.0, attacker="paper"), left(90.0, defense="soteria")]
)
def test_nothing_is_called_unbroken_on_half_on_few_updates_by_the_paper_alone_or_untried(setting):
    assert unbroken([setting], [tried("ggl"), tried("idlg")], {}) == ()


def test_a_setting_whose_clip_and_noise_prove_it_says_so_instead_of_who_tried():
    proof = {identity({"defense": "lrp"}): "no attacker can"}
    attacks = [tried("ggl"), tried("idlg"), tried("ggl", "none"), tried("idlg", "none")]
    proven, tested = unbroken([left(60.0), left(60.0, "none")], attacks, proof)
    assert (proven.bound, tested.bound) == ("no attacker can", "")
    assert _unbroken(proven) == "Not to be broken by any attacker: LRP; no attacker can."
    assert _unbroken(tested).startswith("Not broken by the attackers tried: no defense; 80 %")


@pytest.fixture(scope="module")
def plan():
    names = ("hyperfl/table3", "hyperfl/defenses-compared")
    return build_plan({key: item for key, item in load_items().items() if key in names}, ("small",))


@pytest.mark.parametrize("name", ["hyperfl/table3", "hyperfl/defenses-compared"])
def test_just_the_settings_with_enough_noise_on_all_that_is_sent_are_proven(plan, name):
    proven = bounds_of(plan.items[name], plan.runs["small", name])
    # of the other methods some clip at 4 under a noise of 0.1, which bounds nothing
    assert {json.loads(key)["method"] for key in proven} == {"dp-fedavg", "ppsgd", "centaur"}
    assert all("at most 7.5 %" in text for text in proven.values())


def test_of_several_captures_in_one_setting_the_weakest_counts(plan):
    name = "hyperfl/table3"
    runs = [run for run in plan.runs["small", name] if isinstance(run.spec, ScoreSpec)]
    noisy = next(run for run in runs if bounds_of(plan.items[name], [run]))
    open_ = next(run for run in runs if not bounds_of(plan.items[name], [run]))
    assert bounds_of(plan.items[name], [noisy, replace(open_, choice=noisy.choice)]) == {}
