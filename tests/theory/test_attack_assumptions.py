"""OUTPOST table II as data: five settings, what practice offers, and the marks that follow from what attacks need."""

from dataclasses import replace

import pytest

from leaklab.theory.attack_assumptions import ATTACKS, EVERY, AttackAssumptions

ALL_OF_THEM = "all of these"


@pytest.fixture
def marks():
    numbers = list(AttackAssumptions().run(0, None, lambda steps, total, label: steps))
    assert {one.metric for one in numbers} == {"holds_in_practice"}
    return {(one.row["setting"], one.row["attack"]): one for one in numbers}


def test_every_row_of_the_printed_table_is_there_with_its_practice_and_in_its_order(marks):
    settings = list(dict.fromkeys(setting for setting, _ in marks))
    assert settings == [
        "model state", "epochs E, samples n, batch B", "heterogeneity", "optimizer", "other priors", ALL_OF_THEM
    ]  # fmt: skip
    assert all(one.row["practice"] for (setting, _), one in marks.items() if setting != ALL_OF_THEM)
    assert {attack for setting, attack in marks if setting == "other priors"} == {one.name for one in ATTACKS}


def test_only_csdlg_faces_several_epochs_samples_and_batches(marks):
    counts = {attack: one.value for (setting, attack), one in marks.items() if setting.startswith("epochs")}
    assert counts == {"DLG": 0, "iDLG": 0, "csDLG": 1, "GradInversion": 0}
    assert marks["epochs E, samples n, batch B", "iDLG"].row["assumed"] == "E = 1, n = 1, B = 1"


def test_what_the_server_cannot_have_holds_for_nobody_who_needs_it(marks):
    priors = {attack: one.value for (setting, attack), one in marks.items() if setting == "other priors"}
    assert priors == {"DLG": 1, "iDLG": 1, "csDLG": 0, "GradInversion": 0}


def test_print_gives_three_settings_for_all_attacks_together(marks):
    together = {setting: one.value for (setting, attack), one in marks.items() if attack == EVERY}
    assert together == {"model state": 0, "heterogeneity": 0, "optimizer": 0}


def test_no_attack_holds_in_all_settings_as_print_says(marks):
    assert {one.value for (setting, _), one in marks.items() if setting == ALL_OF_THEM} == {0}


def test_each_of_the_counts_decides():
    (good,) = [one for one in ATTACKS if one.faces_production]
    for field, value in (("epochs", "1"), ("samples", "1"), ("batch", "n")):
        assert not replace(good, **{field: value}).faces_production, field


def test_smooth_images_are_a_prior_that_everyone_has():
    (csdlg,) = [one for one in ATTACKS if one.name == "csDLG"]
    assert not csdlg.has_its_priors
    assert replace(csdlg, priors=("smooth images",)).has_its_priors
