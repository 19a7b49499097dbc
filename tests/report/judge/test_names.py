"""Rows in words for people."""

import pytest

from leaklab.report.judge.terms import bracketed, in_words, key_in_words, key_name, name_in_words


def test_a_row_reads_as_words_with_the_numbers_of_its_setting_last():
    row = {"B": 1, "E": 1, "attack": "csdlg", "dataset": "emnist", "defense": "outpost", "n": 2, "scenario": 2}
    assert in_words(row) == "csDLG, EMNIST, OUTPOST, scenario 2, 2 images, 1 epoch, batch size 1"


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("perturbation", True, "perturbation"), ("perturbation", False, "no perturbation"), ("n", 1, "1 image"),
        ("eta1", 0.005, "eta1 0.005"), ("dataset", "mine", "mine"), ("noise_scale", 2, "noise scale 2"),
        ("summed", 1, "1 client in a sum"), ("hidden", 64, "64 hidden units"),
    ],
)  # fmt: skip
def test_a_key_with_its_value(key, value, words):
    assert key_in_words(key, value) == words


def test_an_attack_keeps_its_transforms():
    assert name_in_words("csdlg, masked columns") == "csDLG, masked columns"
    assert (key_name("B"), key_name("noise_scale")) == ("batch size", "noise scale")


def test_several_words_stand_in_a_list_with_brackets():
    assert bracketed("EMNIST, 20 clients, LRP") == "EMNIST (20 clients, LRP)"
    assert bracketed("EMNIST") == "EMNIST"
