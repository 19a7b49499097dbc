"""From the numbers of checks to an item's result table."""

import math
from pathlib import Path

import pytest

from leaklab.items.expand import expand
from leaklab.items.items import load_item
from leaklab.records.files import write_json
from leaklab.report.collect.item import collect
from leaklab.specs.base import run_folder, run_id
from leaklab.theory.base import Number, write_numbers

ITEM = """
paper: lrp
item: theorem1
number: 20
kind: theorem
title: A check
renderer: table
runs:
  main:
    stage: check
    check: {name: drift-sketch, steps: 3}
  more:
    like: main
    variant: "steps={check.steps}"
    check.steps: [4, 5]
cells:
  row: {steps: check.steps}
  metrics:
    angle: {better: lower, unit: "°"}
scales:
  demo: {blocks: {main: {check.steps: 1}}}
  small: {}
  paper: {}
"""
DEAL = (
    ("check: {name: drift-sketch, steps: 3}", "check: {name: drift-sketch, steps: 3}\n    dataset: mnist\n"
     "    partition: {name: iid, clients: 4}"),
    ("demo: {blocks: {main: {check.steps: 1}}}", "demo: {set: {dataset: digits}}"),
)  # fmt: skip
NUMBERS = (
    Number("angle", 2.5, {"rates": "equal"}, std=0.5, n=7),
    Number("x", 1.0, {"path": "average"}, 0),
    Number("x", math.nan, {"path": "average"}, 1),
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for dataset, substitute in (("mnist", None), ("digits", "scikit-learn's digits")):
        write_json(Path(f"data/prepared/{dataset}.json"), {"name": dataset, "substitute": substitute})


def collected(scale, *changes):
    text = ITEM
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = Path("config/items/lrp/theorem1.yaml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    item = load_item(path)
    for run in expand(item, scale):
        write_numbers(run_folder(run.spec) / "numbers.csv", NUMBERS)
    return item, collect(item, scale).rows


def test_a_row_has_the_items_keys_the_numbers_own_and_its_place():
    item, rows = collected("small")
    assert [row.row for row in rows[:3]] == [
        {"steps": 3, "rates": "equal"},
        {"steps": 3, "path": "average", "index": 0},
        {"steps": 3, "path": "average", "index": 1},
    ]
    (run, *_) = expand(item, "small")
    assert all(row.runs == (run_id(run.spec),) for row in rows[:3])


def test_values_spreads_and_counts_are_kept():
    _, rows = collected("small")
    assert (rows[0].value, rows[0].std, rows[0].n) == (2.5, 0.5, 7)
    assert (rows[0].unit, rows[0].better) == ("°", "lower")
    assert (rows[1].value, rows[1].std, rows[1].n) == (1.0, None, None)
    assert rows[2].value is None


def test_blocks_with_a_variant_keep_it():
    _, rows = collected("small")
    assert [row.variant for row in rows[::3]] == ["as-described", "steps=4", "steps=5"]


def test_a_check_without_a_deal_rests_on_no_data():
    assert {row.substitutes for row in collected("small")[1]} == {()}
    by_variant = {row.variant: row.substitutes for row in collected("demo")[1]}
    assert by_variant == {"as-described": ("reduced setting of scale demo",), "steps=4": (), "steps=5": ()}


def test_a_check_of_a_deal_has_the_stand_ins_of_its_data():
    assert {row.substitutes for row in collected("small", *DEAL)[1]} == {()}
    (substitutes,) = {row.substitutes for row in collected("demo", *DEAL)[1]}
    assert substitutes == ("scikit-learn's digits", "digits in place of mnist", "reduced setting of scale demo")
