"""Landscapes in the result table and in the figure: one line or plane per defense and attacker."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from leaklab.records.errors import UserError
from leaklab.records.expand import expand
from leaklab.records.files import write_json, write_table
from leaklab.records.ids import run_folder
from leaklab.records.items import Item
from leaklab.report.collect.item import collect
from leaklab.report.figures import landscapes
from leaklab.report.judge.evidence import Evidence
from leaklab.report.judge.indexed import Indexed
from leaklab.report.numbers.results import ResultTable

BLOCK = {
    "stage": "landscape",
    "dataset": "digits",
    "images": {"count": 1},
    "model": "dlg-lenet",
    "defense": ["none", "lrp"],
    "attack": "ggl",
    "generator": {"dataset": "digits", "steps": 9},
    "iterations": 5,
    "metrics": ["mse"],
}
ALPHA = [-0.5, 0.0, 0.5, 1.0, 1.5]
LEVEL = {("none", "none"): 1.0, ("lrp", "none"): 2.0, ("none", "profiled-scale"): 3.0, ("lrp", "profiled-scale"): 4.0,
         ("lrp", "closed-form-scale"): 5.0, ("none", "closed-form-scale"): 6.0}  # fmt: skip


def item(renderer="latent-line", transforms=("none", "profiled-scale"), **block):
    return Item.model_validate(
        {
            "paper": "lrp",
            "item": "figure4",
            "title": "A title",
            "number": 1,
            "kind": "figure",
            "renderer": renderer,
            "runs": {"line": {**BLOCK, "transform": list(transforms), **block}},
            "cells": {"row": {"defense": "defense.name"}, "metric_as": {"line": {"lpips_squeeze": "lpips"}}},
            "landscape": {
                "distance": ["lpips", "mse"],
                "titles": {"lpips": "LPIPS", "mse": "MSE"},
                "labels": {"defense": {"none": "no defense", "lrp": "LRP"}},
                "attackers": {"paper": "", "knowing": ", profiled"},
                "note": "Look here.",
                "profiled": True,
            },
            "scales": {"demo": {}, "paper": {"set": {"metrics": ["lpips-vgg"]}}},
        }
    )


def written(one, betas=None, metric="mse", unavailable=None):
    """Write the runs of an item: the loss is its level everywhere, the distance counts the points."""
    write_json(Path("data/prepared/digits.json"), {"shape": [1, 8, 8]})
    for run in expand(one, "demo"):
        spec = run.spec.attack
        pairs = [(alpha, beta) for alpha in ALPHA for beta in betas or [None]]
        table = pd.DataFrame({"alpha": [alpha for alpha, _ in pairs]})
        if betas:
            table["beta"] = [beta for _, beta in pairs]
        level = LEVEL[spec.capture.defense.name, spec.transform.name]
        table["matching_loss"] = [level + place for place in range(len(pairs))]
        if not betas:
            table["profiled_loss"] = table.matching_loss + (0 if spec.transform.name == "profiled-scale" else 10)
        if not unavailable:
            table[metric] = [float(place) for place in range(len(pairs))]
        write_table(run_folder(run.spec) / "landscape.csv", table)
        write_json(run_folder(run.spec) / "cards.json", {"not_available": unavailable or {}})
    return collect(one, "demo")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_every_point_is_a_row_of_its_attacker():
    results = written(item())
    assert len(results.rows) == 4 * 4 * len(ALPHA)
    lrp = Evidence(Indexed(results)).S("figure4", "matching_loss", defense="lrp")
    assert [point.value for point in lrp] == [2, 3, 4, 5, 6]
    knowing = Evidence(Indexed(results).strongest, attackers=("paper", "knowing", ""))
    loss, alpha = (knowing.S("figure4", name, defense="lrp") for name in ("matching_loss", "alpha"))
    assert [point.value for point in loss] == [4, 5, 6, 7, 8]
    assert [point.value for point in alpha] == ALPHA


def test_another_distance_than_the_papers_is_a_stand_in():
    assert "mse in place of lpips-vgg" in written(item()).substitutes()


def test_a_line_per_defense_and_attacker_in_the_order_of_labels():
    one = item()
    lines = landscapes.lines(one, written(one))
    assert [line.name for line in lines] == ["no defense", "LRP", "no defense, profiled", "LRP, profiled"]
    assert lines[1].loss.tolist() == [2, 3, 4, 5, 6]
    assert lines[1].profiled.tolist() == [12, 13, 14, 15, 16]
    assert lines[3].profiled is None
    assert lines[3].distance.tolist() == [0, 1, 2, 3, 4]
    assert landscapes.words(one, written(one)).distance == "MSE"
    assert landscapes.notes(one) == ["Look here."]


def test_the_profiled_curve_is_drawn_on_request_only():
    one = item()
    quiet = one.model_copy(update={"landscape": one.landscape.model_copy(update={"profiled": False})})
    assert {line.profiled for line in landscapes.lines(quiet, written(one))} == {None}


def test_the_points_of_a_plane_keep_their_places():
    one = item("latent-plane", transforms=("none",), beta=[-1, 1, 3])
    first, _ = landscapes.planes(one, written(one, betas=[-1.0, 0.0, 1.0]))
    assert first.beta.tolist() == [-1, 0, 1]
    assert np.array_equal(first.distance, np.arange(15.0).reshape(5, 3))


def test_the_preferred_distance_is_shown_by_its_printed_name():
    one = item()
    assert landscapes.words(one, written(one, metric="lpips_squeeze")).distance == "LPIPS"


def test_a_figure_without_any_distance_is_refused_and_the_table_says_why():
    one = item()
    results = written(one, unavailable={"lpips_squeeze": "weights not here"})
    assert {row.note for row in results.rows if row.value is None} == {"not available: weights not here"}
    with pytest.raises(UserError, match="none of the distances lpips, mse was computed"):
        landscapes.lines(one, results)


def test_two_knowing_attackers_of_one_cell_are_refused():
    with pytest.raises(UserError, match=r"figure4.yaml: runs.line: .* choose one transform"):
        written(item(transforms=("profiled-scale", "closed-form-scale")))


def test_a_missing_section_is_named():
    one = item().model_copy(update={"landscape": None})
    with pytest.raises(UserError, match="renderer latent-line needs a section 'landscape'"):
        landscapes.lines(one, ResultTable())
