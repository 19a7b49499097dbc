"""Landscapes in the result table and in the figure: one line or plane per defense and attacker."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from leaklab.items.expand import expand
from leaklab.items.items import Item
from leaklab.metrics import landscape
from leaklab.records.errors import UserError
from leaklab.records.files import write_json, write_table
from leaklab.report.collect.item import collect
from leaklab.report.collect.landscapes import LOSS, PROFILED
from leaklab.report.figures import landscapes
from leaklab.report.judge.evidence import Evidence
from leaklab.report.judge.indexed import Indexed
from leaklab.report.numbers.results import ResultTable
from leaklab.report.numbers.words import NumberMissingError
from leaklab.specs.base import run_folder

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


def written(one, betas=None, metric="mse", unavailable=None, turned=()):
    """Write the runs of an item: the loss rises from its level, the distance counts the points.

    Image i of ``turned`` has ``turned[i]`` of its points in the opposite order of the distance.
    """
    write_json(Path("data/prepared/digits.json"), {"shape": [1, 8, 8]})
    for run in expand(one, "demo"):
        spec = run.spec.attack
        pairs = [(alpha, beta) for alpha in ALPHA for beta in betas or [None]]
        tables = []
        for image in range(spec.capture.image_count):
            table = pd.DataFrame({"image": image, "alpha": [alpha for alpha, _ in pairs]})
            if betas:
                table["beta"] = [beta for _, beta in pairs]
            level = LEVEL[spec.capture.defense.name, spec.transform.name]
            table["matching_loss"] = [level + place for place in range(len(pairs))]
            if not betas:
                table["profiled_loss"] = table.matching_loss + (0 if spec.transform.name == "profiled-scale" else 10)
            if not unavailable:
                places = [float(place) for place in range(len(pairs))]
                count = turned[image] if image < len(turned) else 0
                table[metric] = [*places[:count][::-1], *places[count:]]
            tables.append(table)
        write_table(run_folder(run.spec) / "landscape.csv", pd.concat(tables))
        write_json(run_folder(run.spec) / "cards.json", {"not_available": unavailable or {}})
    return collect(one, "demo")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_every_point_is_a_row_of_its_attacker():
    results = written(item())
    points = [row for row in results.rows if row.is_point]
    # two losses and a distance
    assert len(points) == 4 * 3 * len(ALPHA)
    assert [row.row["alpha"] for row in points[: len(ALPHA)]] == ALPHA
    lrp = Evidence(Indexed(results)).S("figure4", "matching_loss", defense="lrp")
    assert [point.value for point in lrp] == [2, 3, 4, 5, 6]
    knowing = Evidence(Indexed(results).strongest, attackers=("paper", "knowing", ""))
    assert [point.value for point in knowing.S("figure4", "matching_loss", defense="lrp")] == [4, 5, 6, 7, 8]


def test_every_image_has_its_numbers_and_their_median_has_an_interval():
    results = written(item(images={"count": 3}), turned=(0, 3, 5))
    evidence = Evidence(Indexed(results), as_they_are=True)
    found = [value.value for _, value in evidence.V("figure4", "rho_mse", defense="lrp")]
    # three of five points turned: the squared differences of ranks are 4, 0, 4
    assert found == pytest.approx([1, 1 - 6 * 8 / (5 * 24), -1])
    assert evidence.T("figure4", "rho_mse_median", defense="lrp").value == pytest.approx(found[1])
    assert evidence.T("figure4", "lowest_loss_median", defense="lrp").value == 2
    assert evidence.T("figure4", "highest_loss_median", defense="lrp").value == 6
    assert evidence.T("figure4", "lowest_loss_offset_median", defense="lrp").value == 0.5
    assert evidence.T("figure4", "loss_shape_median", defense="lrp").value == pytest.approx(1)
    assert evidence.T("figure4", "mse_shape_median", defense="lrp").value == pytest.approx(1)
    # the lowest loss is that of the first point, which the turned ones make the third nearest and the farthest
    assert [value.value for _, value in evidence.V("figure4", "mse_at_lowest_loss", defense="lrp")] == [0, 0.4, 0.8]
    (median,) = (row for row in results.rows if row.metric == "rho_mse_median" and row.row == {"defense": "lrp"})
    assert (median.n, median.clusters, median.ci_low, median.ci_high) == (3, 3, None, None)


def test_planted_images_are_a_control_that_only_a_claim_which_names_it_sees():
    one = item(images={"count": 2, "planted": True}, transforms=("none",))
    results = written(one)
    evidence = Evidence(Indexed(results), as_they_are=True)
    assert evidence.T("figure4", "rho_mse_median", defense="lrp", selection="planted").value == pytest.approx(1)
    with pytest.raises(NumberMissingError):
        evidence.T("figure4", "rho_mse_median", defense="lrp")
    assert [line.name for line in landscapes.lines(one, results)] == ["no defense, planted", "LRP, planted"]


def test_the_image_with_the_median_correlation_is_shown_and_the_others_are_thin():
    one = item(images={"count": 4}, transforms=("none",))
    line = landscapes.lines(one, written(one, turned=(5, 0, 3, 2)))[0]
    assert line.distance.tolist() == [2, 1, 0, 3, 4]
    assert line.other_distances.tolist() == [[4, 3, 2, 1, 0], [0, 1, 2, 3, 4], [1, 0, 2, 3, 4]]
    assert sorted(line.correlations) == pytest.approx([-1, 0.6, 0.9, 1])


def test_of_a_plane_only_the_typical_image_has_points():
    one = item("latent-plane", transforms=("none",), beta=[-1, 1, 3], images={"count": 3})
    results = written(one, betas=[-1.0, 0.0, 1.0], turned=(0, 15, 3))
    assert {row.row["image"] for row in results.rows if row.is_point} == {2}
    first, _ = landscapes.planes(one, results)
    assert first.distance.ravel()[:4].tolist() == [2, 1, 0, 3]
    assert len(first.correlations) == 3


def test_another_distance_than_the_papers_is_a_stand_in():
    assert "mse in place of lpips-vgg" in written(item()).substitutes()
    both = item(metrics=["lpips-squeeze", "mse"]).model_copy(deep=True)
    both.scales["paper"].set["metrics"] = ["lpips-vgg", "mse"]
    assert "lpips-squeeze in place of lpips-vgg" in written(both).substitutes()


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


def test_the_columns_of_losses_have_the_names_under_which_they_are_written():
    assert (LOSS, PROFILED) == (landscape.LOSS, landscape.PROFILED)
