"""The state of an item: planned, not run or done, and why."""

from pathlib import Path

import pytest

from leaklab.items.items import Item
from leaklab.planning.outputs import State, not_set_up, state_of, states
from leaklab.planning.plan import build_plan, result_files

ROOT = Path(__file__).parents[2]
FIELDS = {"paper": "lrp", "title": "A title", "number": 1, "kind": "table"}
READY = {"renderer": "architecture", "runs": {"main": {"stage": "architecture"}}, "scales": {"small": {}}}


def planned(**fields):
    item = Item.model_validate({**FIELDS, "item": "table1", **fields})
    return build_plan({item.key: item}), item


def touch(root, item, *names):
    for name in names:
        path = root / result_files(item, "small")[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_an_item_that_does_not_run_yet_gives_its_reason(tmp_path):
    plan, item = planned(planned="needs a generator")
    touch(tmp_path, item, "csv", "png")
    assert state_of(plan, item, "small", tmp_path) == State("planned", "needs a generator")


def test_a_scale_that_the_item_does_not_have_is_named(tmp_path):
    plan, item = planned(**READY)
    assert state_of(plan, item, "paper", tmp_path) == State("planned", not_set_up(item, "paper"))


@pytest.mark.parametrize("there", [[], ["csv"], ["png"], ["markdown", "latex", "pdf", "data"]])
def test_what_was_not_run_says_how_to(tmp_path, there):
    plan, item = planned(**READY)
    touch(tmp_path, item, *there)
    assert state_of(plan, item, "small", tmp_path) == State(
        "not run", "snakemake --cores 2 results/small/lrp/table1.csv"
    )


def test_an_item_is_done_with_its_table_and_its_figure(tmp_path):
    plan, item = planned(**READY)
    touch(tmp_path, item, "csv", "png")
    assert state_of(plan, item, "small", tmp_path) == State("done")


def test_an_item_may_wait_at_one_scale(tmp_path):
    plan, item = planned(**{**READY, "scales": {"small": {"planned": "an hour to run"}, "paper": {}}})
    assert state_of(plan, item, "small", tmp_path) == State("planned", "an hour to run")
    assert state_of(plan, item, "paper", tmp_path).word == "not run"
    assert plan.ready("small") == []


def test_an_item_may_stand_apart_and_is_made_when_asked_for(tmp_path):
    plan, item = planned(**{**READY, "scales": {"small": {"apart": True}}})
    assert state_of(plan, item, "small", tmp_path) == State(
        "not run", "snakemake --cores 2 results/small/lrp/table1.csv"
    )
    assert plan.ready("small") == []
    assert ("small", item.key) in plan.runs


def test_all_items_have_a_state_at_every_scale(whole_plan, tmp_path):
    found = states(whole_plan, tmp_path)
    assert len(found) == 102  # 51 of the papers and the others derived from them
    assert {tuple(by_scale) for by_scale in found.values()} == {("demo", "small", "paper")}
    words = {(key, scale): state.word for key, by_scale in found.items() for scale, state in by_scale.items()}
    # at scale paper other tables have these seeds and all images; twenty CPU hours are more than scale small is for
    planned = {("hyperfl/table1-seeds", "paper"), ("lrp/table3-imagenet", "small"), ("lrp/cifar100-half", "paper")}
    planned.add(("lrp/max-pooling", "demo"))
    assert {place for place, word in words.items() if word != "not run"} == planned
    assert {words[place] for place in planned} == {"planned"}
    assert all(state.reason for by_scale in found.values() for state in by_scale.values())
