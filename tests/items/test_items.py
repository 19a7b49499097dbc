"""The catalogue of items: complete, consistent with the claims, and strict about what it reads."""

import csv
from pathlib import Path

import pytest

from leaklab.items.items import Item, find_item, load_item, load_items
from leaklab.records.errors import UserError

ROOT = Path(__file__).parents[2]
TABLE1 = ROOT / "config/items/lrp/table1.yaml"
# derived items (figure 9 with a single local step, leakage along a training, ...) share a printed item's number
DERIVED = {
    "table1-seeds",
    "table2-rates",
    "table3-mnist",
    "figure9-one-step",
    "figure-training",
    "figure-rounds",
    "figure7-large-steps",
    "figure8-one-image",
    "figure9-one-image",
    "exact-batches",
    "certificates",
    "utility-rounds",
    "utility-settings",
    "convergence",
    "head-features",
    "head-repairs",
    "figure-noise",
    "first-layer",
    "summed-clients",
    "ablation",
    "defenses-compared",
    "learnt",
    "learned-prior",
    "max-pooling",
    "residual-peel",
    "leak-map",
    "frontier",
    "public-data",
    "figure-production",
    "figure3-time",
    "theorem1-lemmas",
    "theorem1-unequal",
    "rounds-by-steps",
    "optima-by-classes",
    "rate-laws",
    "figure10-fixed",
    "resnet-times",
    "table2-imagenet",
    "table3-imagenet",
    "imprint",
    "table1-dropout",
    "cifar100-half",
    "table2-seeds",
    "table6-seeds",
    "figure3-seeds",
    "text-exact",
    "text-lora",
    "text-limits",
}
COUNTS = {"lrp": 55, "outpost": 25, "hyperfl": 22}


@pytest.fixture(scope="module")
def items():
    return load_items(ROOT / "config/items")


@pytest.fixture(scope="module")
def claims():
    with (ROOT / "config/papers/claims.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def copy_of_table1(tmp_path):
    """Write table1.yaml with one piece of text replaced, at a path of its own."""

    def write(old, new, place="lrp/table1.yaml"):
        text = TABLE1.read_text(encoding="utf-8")
        assert old in text
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
        return path

    return write


def refusal(path):
    with pytest.raises(UserError) as caught:
        load_item(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


def minimal(**fields):
    return {"paper": "lrp", "item": "table9", "title": "A title", "number": 1, "kind": "table", **fields}


def test_all_items_of_the_three_papers_are_there(items):
    printed = [item.number for item in items.values() if item.item not in DERIVED]
    assert printed == list(range(1, 52))
    assert {item.number for item in items.values() if item.item in DERIVED} <= set(printed)
    assert {paper: sum(item.paper == paper for item in items.values()) for paper in COUNTS} == COUNTS


def test_items_come_in_the_order_of_the_catalogue(items):
    papers = [item.paper for item in items.values()]
    assert papers == sorted(papers, key=list(COUNTS).index)


def test_each_claim_belongs_to_the_one_item_that_names_it_or_that_it_names(items, claims):
    asked = {row["id"]: f"{row['paper']}/{row['item']}" for row in claims}
    assert len(asked) == len(claims)
    named = [(claim, item.key) for item in items.values() for claim in item.claims]
    assert len(dict(named)) == len(named)
    assert {claim: asked.get(claim) for claim, _ in named} == dict(named)
    assert set(asked.values()) <= set(items)


def test_each_item_says_what_it_shows_and_what_is_open(items):
    for item in items.values():
        assert item.shows.endswith("."), item.key
        assert item.open, item.key
        assert not any("\n" in line for line in (*item.open, item.planned, item.title)), item.key


def test_items_that_do_not_run_say_what_is_missing(items):
    for item in items.values():
        if not item.made:
            assert item.planned.startswith("needs "), item.key
            unused = (item.renderer, item.reading, item.cells, item.scales)
            assert not any(unused), item.key


def test_items_that_run_say_what_each_scale_changes(items):
    for item in items.values():
        if item.runs:
            assert set(item.scales) == {"demo", "small", "paper"}, item.key
            assert all(change.note for change in item.scales.values()), item.key


@pytest.mark.parametrize(
    ("old", "new", "place", "known"),
    [
        ("title:", "titel:", "titel", "cells, claims, comparison"),
        ("  unit:", "  units:", "cells.units", "against, better, embedding, metric_as, metrics, over_images, row"),
        ("{class: tight,", "{klass: tight,", "comparison.klass", "center_by, class"),
        (
            "    set: {dataset: digits",
            "    sets: {dataset: digits",
            "scales.demo.sets",
            "absent, apart, blocks, drop, missing, note, planned, set",
        ),
        ("{from: model.name, as:", "{from: model.name, names:", "cells.row.model.names", "as, from"),
    ],
)
def test_a_misspelt_key_is_refused_with_its_place_and_the_known_keys(copy_of_table1, old, new, place, known):
    assert refusal(copy_of_table1(old, new)).startswith(f"{place}: unknown key; known keys are {known}")


def test_the_message_lists_every_known_key_of_an_item(copy_of_table1):
    listed = refusal(copy_of_table1("title:", "titel:")).partition("known keys are ")[2].split(", ")
    assert listed == sorted(Item.model_fields)


@pytest.mark.parametrize(
    ("old", "new"),
    [("item: table1", "item: table2"), ("paper: lrp", "paper: outpost")],
)
def test_a_file_that_names_another_item_is_refused(copy_of_table1, old, new):
    assert "must match the file's place" in refusal(copy_of_table1(old, new))


def test_a_file_in_the_wrong_folder_is_refused(copy_of_table1):
    path = copy_of_table1("", "", place="hyperfl/table1.yaml")
    assert "must match the file's place" in refusal(path)


@pytest.mark.parametrize("fields", [{}, {"runs": {"train": {}}, "renderer": "table", "planned": "needs a reason"}])
def test_an_item_has_either_runs_or_a_reason(tmp_path, fields):
    path = tmp_path / "lrp" / "table9.yaml"
    path.parent.mkdir()
    path.write_text(str(minimal(**fields)), encoding="utf-8")
    assert "either 'runs' or a reason under 'planned'" in refusal(path)


def test_an_item_with_runs_needs_a_renderer():
    with pytest.raises(ValueError, match="needs a 'renderer'"):
        Item.model_validate(minimal(runs={"train": {}}))


@pytest.mark.parametrize("text", ["title: [", "- a list", "title: x"])
def test_what_is_no_item_is_refused_in_one_line(tmp_path, text):
    path = tmp_path / "table1.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as caught:
        load_item(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_empty_folder_says_where_to_run(tmp_path):
    with pytest.raises(UserError, match="project's root folder"):
        load_items(tmp_path)


@pytest.mark.parametrize("name", ["lrp/table1", "lrp table1", " lrp:table1 ", "lrp.table1"])
def test_an_item_is_found_by_its_name(items, name):
    assert find_item(name, items) is items["lrp/table1"]


def test_an_unknown_item_brings_up_its_neighbors(items):
    with pytest.raises(UserError, match=r"'lrp/table11'.*lrp/table1, "):
        find_item("lrp/table11", items)
    with pytest.raises(UserError, match="choose from lrp, outpost, hyperfl"):
        find_item("nothing", items)


def test_a_difference_is_never_best_or_worst_beside_what_it_is_a_difference_of(items):
    beside = {name: item for name, item in items.items() if item.cells and item.cells.against}
    assert len(beside) >= 4
    for name, item in beside.items():
        assert "difference" in (item.table.mark_within or item.table.rows), name
