"""Which pictures of an item's runs stand in its grid of defenses, and with which scores."""

import pytest
import torch

from leaklab.items.expand import expand
from leaklab.items.items import Item
from leaklab.records.errors import UserError
from leaklab.records.files import write_json, write_tensors
from leaklab.report.collect.source import row_of
from leaklab.report.figures import defense_pictures
from leaklab.report.figures.defense_grid import ORIGINAL
from leaklab.report.figures.defense_pictures import gather
from leaklab.report.numbers.results import ResultRow, ResultTable
from leaklab.specs.base import run_folder, run_id

ATTACK = {
    "stage": "attack",
    "dataset": "digits",
    "images": {"count": 4},
    "model": "dlg-lenet",
    "defense": ["none", "lrp"],
    "batch_size": 2,
    "client_weight": [2.0, 0.5],
    "draws": 2,
    "attack": {"name": "idlg", "label_rule": "known"},
    "threat_model": "honest-but-curious-with-labels",
    "transform": ["none", "profiled-scale"],
    "iterations": 5,
    "metrics": ["mse"],
    "skip": [
        {"defense": "none", "transform": "profiled-scale"},
        {"defense": "none", "client_weight": 0.5},
    ],
}
ROW = {"defense": "defense.name", "theta": "client_weight"}
IMAGES = [[12, 45], [7, 3]]
CLASS = {12: 1, 45: 0, 7: 1, 3: 2}
LEVEL = {("none", "none"): 0.1, ("lrp", "none"): 0.3, ("lrp", "profiled-scale"): 0.6}


def item(datasets=("digits",), runs=ATTACK, **pictures):
    return Item.model_validate(
        {
            "paper": "lrp",
            "item": "figure6",
            "title": "A title",
            "number": 1,
            "kind": "figure",
            "renderer": "defense-grid",
            "runs": {"attack": {**runs, "dataset": list(datasets)}},
            "cells": {"row": ROW if len(datasets) == 1 else {**ROW, "dataset": "dataset"}},
            "pictures": {"columns": ["defense", "theta"], "scores": ["mse"], **pictures},
            "scales": {"small": {}},
        }
    )


def level(image):
    return image / 100


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return made(item())


def made(one):
    """Flat pictures: a private image's level tells its index, a reconstruction's which run and which image it is of."""
    rows = []
    for run in expand(one, "small"):
        attack = run.spec.attack
        trials = [{"image": images, "draw": draw} for images in IMAGES for draw in range(attack.capture.draws)]
        levels = torch.tensor([[level(image) for image in trial["image"]] for trial in trials], dtype=torch.float64)
        truth = levels.view(-1, 2, 1, 1, 1).expand(-1, 2, 1, 4, 4).contiguous()
        labels = torch.tensor([[CLASS[image] for image in trial["image"]] for trial in trials])
        write_tensors(run_folder(attack.capture) / "truth.safetensors", {"images": truth, "labels": labels})
        write_json(run_folder(attack.capture) / "truth_facts.json", {"trials": trials})
        shift = LEVEL[attack.capture.defense.name, attack.transform.name]
        # the attack returns a batch in another order
        write_tensors(run_folder(attack) / "reconstruction.safetensors", {"images": truth.flip(1) / 2 + shift})
        keys = row_of(one, run)
        attacker = "paper" if attack.transform.name == "none" else "knowing"
        own = {"runs": (run_id(run.spec),), "metric": "mse_median", "value": 0.0}
        rows.append(ResultRow("lrp", "figure6", {**keys, "tried": attack.transform.name}, **own))
        if attacker == "knowing":
            rows.append(ResultRow("lrp", "figure6", {**keys, "by": "x"}, attacker=attacker, **own))
        for trial in trials:
            for image in trial["image"]:
                place = {**keys, "image": image, "draw": trial["draw"]}
                value = image + trial["draw"] / 10
                rows.append(
                    ResultRow("lrp", "figure6", place, "mse", value, attacker=attacker, runs=(run_id(run.spec),))
                )
    return ResultTable(tuple(rows))


def shade(shot):
    return round(float(shot.image.mean()), 4)


def test_every_image_has_its_original_and_a_picture_per_column_and_attacker(results):
    shots, layout = gather(item(), "small", results)
    found = {(shot.row, shot.column, shot.attacker): shot for shot in shots}
    assert list(layout.columns.values()) == ["original", "none", "lrp, theta 0.5", "lrp, theta 2.0"]
    assert list(layout.rows.values()) == ["class 1 (1)", "class 0", "class 1 (2)", "class 2"]
    for image in (12, 45, 7, 3):
        row = f"image {image}"
        assert shade(found[row, ORIGINAL, ""]) == level(image)
        none = found[row, "defense none, theta 2.0", "paper"]
        assert shade(none) == round(0.1 + level(image) / 2, 4)
        assert none.scores == {"mse": image}
        knowing = found[row, "defense lrp, theta 0.5", "knowing"]
        assert shade(knowing) == round(0.6 + level(image) / 2, 4)
    assert len(found) == len(shots) == 4 * (1 + 1 + 2 * 2)


def test_labels_give_names_and_their_order_and_count_limits_the_images(results):
    labels = {"defense": {"lrp": "LRP", "none": "no defense"}, "theta": {"2.0": "θ = 2", "0.5": "θ = 0.5"}}
    shots, layout = gather(item(labels=labels, count=2), "small", results)
    assert list(layout.columns.values()) == ["original", "LRP, θ = 2", "LRP, θ = 0.5", "no defense"]
    assert {shot.row for shot in shots} == {"image 12", "image 45"}


@pytest.mark.parametrize("place", [{"sections": ["dataset"]}, {"rows": ["dataset", "image"]}])
def test_the_count_is_that_of_each_data_set_whatever_the_numbers_of_its_images(place):
    """Both data sets have the same numbers here: a picture of the one is none of the other."""
    several = item(["digits", "mnist"], count=2, **place)
    shots, layout = gather(several, "small", made(several))
    rows = {shot.row for shot in shots}
    assert rows == {f"dataset {dataset}, image {image}" for dataset in ("digits", "mnist") for image in (12, 45)}
    assert set(layout.rows) == rows


def test_an_image_of_the_other_part_with_the_same_number_is_another_one():
    runs = {**ATTACK, "images": {"count": 4, "split": ["test", "train"]}}
    several = item(runs=runs, count=4, columns=["split"])
    several = several.model_copy(
        update={"cells": several.cells.model_copy(update={"row": {**ROW, "split": "images.split"}})}
    )
    _, layout = gather(several, "small", made(several))
    assert list(layout.columns) == [ORIGINAL, "split test"]  # the part that comes first


def test_images_are_called_by_the_names_of_their_classes(results):
    _, layout = gather(item(classes={"digits": ["zero", "one", "two"]}), "small", results)
    assert list(layout.rows.values()) == ["one (1)", "zero", "one (2)", "two"]


def test_a_class_without_a_name_is_refused(results):
    with pytest.raises(UserError, match="pictures: digits has a class 2, but names for 2: complete 'classes'"):
        gather(item(classes={"digits": ["zero", "one"]}), "small", results)


def test_the_images_of_an_update_make_a_section(results):
    _, layout = gather(item(sections=["update"]), "small", results)
    assert list(layout.sections.values()) == ["update 1", "update 1", "update 2", "update 2"]
    assert list(layout.sections) == list(layout.rows)


def test_an_image_that_comes_again_in_another_section_has_a_row_in_each(results):
    shots, layout = gather(item(sections=["defense"], columns=["theta"]), "small", results)
    assert list(layout.sections.values()) == ["none"] * 4 + ["lrp"] * 4
    assert next(iter(layout.rows)) == "defense none, image 12"
    assert sum(shot.column == ORIGINAL for shot in shots) == 8


def test_true_and_false_have_the_order_of_their_labels():
    layout = item(labels={"collision": {"true": "two images", "false": "one image"}}).pictures
    rank = defense_pictures._rank(layout, "collision", [False, True])
    assert sorted([False, True], key=rank) == [True, False]


def test_rows_and_columns_may_be_settings_and_draws(results):
    shots, layout = gather(item(rows=["defense", "theta"], columns=["draw"], count=1), "small", results)
    assert list(layout.columns.values()) == ["original", "draw 0", "draw 1"]
    second = {shot.row: shot for shot in shots if shot.column == "draw 1" and shot.attacker == "paper"}
    assert second["defense lrp, theta 2.0"].scores == {"mse": 12.1}
    assert {shot.column for shot in shots if shot.row == "defense none, theta 2.0"} == {ORIGINAL, "draw 0", "draw 1"}


def test_of_those_who_know_the_defense_only_the_strongest_is_shown(results):
    printed = ResultTable(tuple(row for row in results.rows if row.attacker == "paper"))
    shots, _ = gather(item(), "small", printed)
    assert {shot.attacker for shot in shots} == {"", "paper"}


def test_updates_are_numbered_over_the_runs_of_one_cell():
    """Two runs that differ in their seed alone: four updates of two images each, one row for each update."""
    runs = {**ATTACK, "draws": 1, "images": {"count": 4, "seed": [0, 1]}, "transform": "none", "skip": []}
    several = item(runs=runs, rows=["update"], columns=["defense"])
    shots, layout = gather(several, "small", made(several))
    assert list(layout.rows.values()) == ["update 1", "update 2", "update 3", "update 4"]
    columns = {column: {shot.row for shot in shots if shot.column == column} for column in layout.columns}
    assert all(len(rows) == 4 for rows in columns.values())


def test_each_value_of_the_keys_of_originals_has_its_original_before_its_columns(results):
    shots, layout = gather(item(originals=["defense"], rows=["update"], columns=["defense", "theta"]), "small", results)
    assert list(layout.columns) == [
        "original, defense none", "defense none, theta 2.0",
        "original, defense lrp", "defense lrp, theta 0.5", "defense lrp, theta 2.0",
    ]  # fmt: skip
    assert list(layout.columns.values())[::2] == ["original, none", "original, lrp", "lrp, theta 2.0"]
    own = {(shot.row, shot.column): shot for shot in shots}
    assert own["update 1", "original, defense lrp"].attacker == ""


def test_an_unknown_key_is_refused_with_the_known_ones(results):
    with pytest.raises(UserError, match="pictures: no key 'client': there are defense, theta, image, draw, update"):
        gather(item(columns=["client"]), "small", results)


def test_an_item_without_the_section_is_refused(results):
    plain = item().model_copy(update={"pictures": None})
    with pytest.raises(UserError, match=r"figure6\.yaml: renderer defense-grid needs a section 'pictures'"):
        gather(plain, "small", results)
