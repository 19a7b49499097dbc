"""An item that lacks a scale, or has text for a number, is refused while planning, with what would do."""

from pathlib import Path

import pytest
import yaml

from leaklab.items.items import load_items, load_papers
from leaklab.planning.call import Call
from leaklab.planning.listings import list_plan, planned_jobs
from leaklab.planning.outputs import state_of
from leaklab.planning.own_items import items_of_call
from leaklab.planning.plan import build_plan
from leaklab.records.errors import UserError

ROOT = Path(__file__).parents[2]
ITEM = {
    "paper": "dlg",
    "item": "digits",
    "number": 1,
    "title": "Two digits",
    "kind": "table",
    "renderer": "table",
    "runs": {
        "attack": {
            "dataset": "digits",
            "images": {"count": 2},
            "model": "dlg-lenet",
            "attack": "dlg",
            "iterations": 5,
            "metrics": ["mse"],
        }
    },
    "cells": {"row": {"attack": "attack.name"}},
    "table": {"rows": ["attack"], "columns": ["metric"], "metric": "mse_median"},
}


@pytest.fixture
def with_scales(tmp_path, monkeypatch):
    """Write the item with some scales as the only one of a checkout, which is the working folder."""
    (tmp_path / "config/items/dlg").mkdir(parents=True)
    for path in (ROOT / "config").glob("*.yaml"):
        (tmp_path / "config" / path.name).symlink_to(path)
    (tmp_path / "config/items/dlg/paper.yaml").write_text("{title: DLG, citation: some authors, order: 1}")
    monkeypatch.chdir(tmp_path)

    def write(scales):
        Path("config/items/dlg/digits.yaml").write_text(yaml.safe_dump({**ITEM, "scales": scales}))
        forget()

    yield write
    forget()


def forget():
    load_items.cache_clear()
    load_papers.cache_clear()


def refusal(call, *arguments):
    with pytest.raises(UserError) as caught:
        call(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_item_without_the_scale_of_the_paper_is_refused_before_anything_runs(with_scales):
    with_scales({"demo": {}})
    for call in ((items_of_call, True, []), (list_plan, "dlg digits", "demo"), (list_plan, "", "demo")):
        said = refusal(*call)
        assert said.startswith("config/items/dlg/digits.yaml: scales: 'paper' is missing, ")
        assert "add paper: {}, or paper: {apart: true}, or paper: {planned: why}" in said


@pytest.mark.parametrize("paper", [{}, {"apart": True}, {"planned": "needs a month"}])
def test_each_offered_way_to_name_it_is_taken(with_scales, paper):
    with_scales({"demo": {}, "paper": paper})
    assert Call(items_of_call(True, []), "demo", True).items
    assert list_plan("dlg digits", "demo").content["total"]["jobs"] == 3


def test_an_item_asked_for_at_a_scale_that_it_does_not_name_is_refused(with_scales):
    with_scales({"demo": {}, "paper": {}})
    expected = (
        "it is not set up for scale small, but for demo or paper: name one of these, or add small: {} to its scales"
    )
    for call in (list_plan, planned_jobs):
        assert refusal(call, "dlg digits", "small") == f"dlg/digits: {expected}"
    items = load_items()
    assert state_of(build_plan(items), items["dlg/digits"], "small").reason == expected


def test_a_paper_asked_for_at_a_scale_that_none_of_its_items_names_is_refused(with_scales):
    with_scales({"demo": {}, "paper": {}})
    assert refusal(list_plan, "dlg", "small") == "no item of dlg runs at scale small: they name demo and paper"


def test_a_paper_whose_items_are_made_by_name_says_so(with_scales):
    with_scales({"demo": {"apart": True}, "paper": {}})
    said = refusal(list_plan, "dlg", "demo")
    assert said == "the items of dlg are made by name, and not with scale demo: name one of dlg digits"
    assert list_plan("dlg digits", "demo").content["total"]["jobs"] == 3


@pytest.mark.parametrize(
    ("key", "place"), [("iterations", "runs.attack.iterations"), ("made_up", "runs.attack.made_up")]
)
def test_text_for_a_number_is_refused_before_it_is_taken_for_anything(with_scales, monkeypatch, key, place):
    monkeypatch.setitem(ITEM["runs"]["attack"], key, "1e2")
    with_scales({"demo": {}, "paper": {}})
    said = refusal(list_plan, "dlg digits", "demo")
    assert said == (f"config/items/dlg/digits.yaml: {place}: '1e2' is text to YAML, and no number: write 100 or 1.0e+2")


def test_text_for_a_number_is_refused_in_what_a_scale_changes(with_scales):
    with_scales({"demo": {"set": {"rate": "1e-3"}}, "paper": {}})
    assert "scales.demo.set.rate: '1e-3' is text to YAML" in refusal(items_of_call, True, [])
