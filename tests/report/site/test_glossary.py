"""Abbreviations are told in full where a page has them first, and once."""

from pathlib import Path

import pytest

from leaklab.report.site.glossary import in_full


def test_the_first_of_each_is_told_and_no_later_one() -> None:
    told: set[str] = set()
    first = in_full("<h2>LRP hides images from <b>DLG</b></h2>", told)
    assert first == [("LRP", "learning rate perturbation"), ("DLG", "deep leakage from gradients")]
    assert in_full("DLG and iDLG", told) == [("iDLG", "improved deep leakage from gradients")]


def test_an_abbreviation_is_a_word_and_the_longest_that_fits() -> None:
    assert [name for name, _ in in_full("HyperFL-LPM", set())] == ["HyperFL-LPM"]
    assert in_full('<a title="LRP">ada_LRPs</a> TAGged', set()) == []


def test_outside_of_a_checkout_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert in_full("LRP", set()) == []
