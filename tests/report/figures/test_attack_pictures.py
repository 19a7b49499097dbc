"""The pictures behind a figure of attacks: which ones, what they show, and how they are kept."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from leaklab.items.expand import expand
from leaklab.items.items import Item
from leaklab.records.files import write_json, write_tensors
from leaklab.report.figures.attack_pictures import ORIGINAL, gather, picture_name, write
from leaklab.report.numbers.results import ResultRow, ResultTable
from leaklab.specs.base import run_folder

torch.set_num_threads(1)

ATTACK = {
    "dataset": "digits",
    "images": {"count": 3},
    "model": "dlg-lenet",
    "defense": ["none", "lrp"],
    "draws": 2,
    "rate": 0.01,
    "attack": "dlg",
    "transform": ["none", "closed-form-scale", "profiled-scale"],
    "iterations": 5,
    "metrics": ["mse"],
    "overrides": [{"when": {"defense": "none"}, "set": {"draws": 1}}],
    "skip": [{"defense": "none", "transform": ["closed-form-scale", "profiled-scale"]}],
}
GRID = {"scores": ["mse"], "pictures": 3}
IMAGES, SIDE = [12, 45, 7], 4
# rate of each trial, as a multiple of the rate that the server assumes
FACTORS = [0.25, 0.5, 0.75, 1.0, 1.25, 1.5]
LEVELS = {"none": 0.2, "closed-form-scale": 0.4, "profiled-scale": 0.6}


def item(**grid):
    return Item.model_validate(
        {
            "paper": "lrp",
            "item": "figure2",
            "title": "A title",
            "number": 1,
            "kind": "figure",
            "renderer": "image-grid",
            "runs": {"attack": ATTACK},
            "grid": {**GRID, **grid},
            "scales": {"small": {}},
        }
    )


def runs_by_transform(defense="lrp"):
    specs = [run.spec for run in expand(item(), "small")]
    return {spec.attack.transform.name: spec for spec in specs if spec.attack.capture.defense.name == defense}


@pytest.fixture(params=[1, 3], ids=["gray", "color"])
def channels(request):
    return request.param


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch, channels):
    """Captures whose pictures are flat: image i has level i / 100; every transform reconstructs a level of its own."""
    monkeypatch.chdir(tmp_path)
    for run in expand(item(), "small"):
        capture = run.spec.attack.capture
        trials = [{"image": image, "draw": draw} for image in IMAGES for draw in range(capture.draws)]
        levels = torch.tensor([trial["image"] / 100 for trial in trials], dtype=torch.float64)
        shape = (len(trials), 1, channels, SIDE, SIDE)
        factors = torch.tensor(FACTORS[: len(trials)], dtype=torch.float64)
        truth = {"images": levels.view(-1, 1, 1, 1, 1).expand(shape), "rates": 0.01 * factors.view(-1, 1)}
        write_tensors(run_folder(capture) / "truth.safetensors", truth)
        write_json(run_folder(capture) / "truth_facts.json", {"trials": trials})
        found = torch.full(shape, LEVELS[run.spec.attack.transform.name], dtype=torch.float64)
        write_tensors(run_folder(run.spec.attack) / "reconstruction.safetensors", {"images": found})


def results(worst="profiled-scale"):
    rows = []
    for name, spec in [*runs_by_transform().items(), ("none", runs_by_transform("none")["none"])]:
        keys = {"dataset": "digits", "attack": "dlg", "defense": spec.attack.capture.defense.name}
        own = run_folder(spec).name
        tried = {"row": {**keys, "tried": name}, "attacker": ""}
        strongest = {"row": {**keys, "by": name}, "attacker": "knowing"}
        for fields in [tried, strongest] if name == worst or keys["defense"] == "none" else [tried]:
            rows.append(ResultRow("lrp", "figure2", metric="mse_median", value=0.5, runs=(own,), **fields))
        if name not in ("none", worst):
            continue
        for image in IMAGES:
            for draw in range(spec.attack.capture.draws):
                attacker = "paper" if name == "none" else "knowing"
                row = {**keys, "image": image, "draw": draw}
                value = LEVELS[name] + image + draw / 10
                rows.append(ResultRow("lrp", "figure2", row, "mse", value, attacker=attacker, runs=(own,)))
    return ResultTable(tuple(rows))


def columns(shots):
    return list(dict.fromkeys(shot.column for shot in shots))


def shots_of(shots, *column):
    return [shot for shot in shots if shot.column == column]


class TestChoice:
    def test_image_after_image_takes_the_next_draw(self):
        shots, _ = gather(item(), "small", results())
        taken = [(shot.image, shot.draw) for shot in shots_of(shots, "lrp", "paper", "dlg")]
        assert taken == [(12, 0), (45, 1), (7, 0)]
        assert [shot.scale for shot in shots_of(shots, "lrp", "paper", "dlg")] == pytest.approx([0.25, 1.0, 1.25])

    def test_no_more_images_than_the_item_asks_for(self):
        shots, pixels = gather(item(pictures=1), "small", results())
        assert {shot.image for shot in shots} == {12}
        assert len(shots) == len(pixels) == len(columns(shots))

    def test_every_attacker_is_a_column_and_originals_are_shown_once(self):
        shots, pixels = gather(item(), "small", results())
        assert set(columns(shots)) == {
            (ORIGINAL,),
            ("none", "paper", "dlg"),
            ("lrp", "paper", "dlg"),
            ("lrp", "knowing", "dlg"),
        }
        assert [shot.image for shot in shots_of(shots, ORIGINAL)] == IMAGES
        assert list(pixels) == [picture_name(shot) for shot in shots]

    @pytest.mark.parametrize("worst", ["closed-form-scale", "profiled-scale"])
    def test_only_the_strongest_stands_for_the_knowing_attacker(self, worst):
        shots, pixels = gather(item(), "small", results(worst))
        shown = shots_of(shots, "lrp", "knowing", "dlg")
        assert len(shown) == len(IMAGES)
        assert {int(pixels[picture_name(shot)].max()) for shot in shown} == {round(255 * LEVELS[worst])}

    def test_the_papers_own_picture_stands_twice_where_it_is_the_strongest(self):
        shots, pixels = gather(item(), "small", results("none"))
        paper, knowing = (shots_of(shots, "lrp", name, "dlg") for name in ("paper", "knowing"))
        assert [pixels[picture_name(s)].tolist() for s in paper] == [pixels[picture_name(s)].tolist() for s in knowing]
        assert [shot.scores for shot in paper] == [shot.scores for shot in knowing]

    def test_the_scores_are_those_of_the_picture_that_is_shown(self):
        shots, _ = gather(item(), "small", results())
        printed, knowing = (shots_of(shots, "lrp", name, "dlg")[1] for name in ("paper", "knowing"))
        assert printed.scores == {"mse": pytest.approx(0.2 + 45 + 0.1)}
        assert knowing.scores == {"mse": pytest.approx(0.6 + 45 + 0.1)}
        assert all(shot.scores == {} for shot in shots_of(shots, ORIGINAL))


class TestPixels:
    def test_unit_levels_become_bytes(self, channels):
        _, pixels = gather(item(), "small", results())
        assert {picture.dtype for picture in pixels.values()} == {np.dtype(np.uint8)}
        assert {picture.shape for picture in pixels.values()} == {(SIDE, SIDE) if channels == 1 else (SIDE, SIDE, 3)}
        for image in IMAGES:
            assert np.unique(pixels[f"digits_{image}_original"]).tolist() == [round(2.55 * image)]

    def test_what_is_not_finite_becomes_mid_gray_and_the_rest_is_clamped(self):
        path = run_folder(runs_by_transform()["none"].attack) / "reconstruction.safetensors"
        found = torch.full((6, 1, 1, 2, 3), 0.2, dtype=torch.float64)
        infinity, missing = float("inf"), float("nan")
        found[0, 0, 0] = torch.tensor([[missing, infinity, -infinity], [1.7, -0.3, 1.0]])
        write_tensors(path, {"images": found})
        _, pixels = gather(item(), "small", results())
        assert pixels["digits_12_draw0_lrp_paper_dlg"].tolist() == [[128, 128, 128], [255, 0, 255]]

    def test_colors_keep_their_places(self):
        path = run_folder(runs_by_transform()["none"].attack) / "reconstruction.safetensors"
        found = torch.zeros(6, 1, 3, 2, 2)
        found[0, 0, 1, 0, 1] = 1.0  # green, first line, second place
        write_tensors(path, {"images": found})
        _, pixels = gather(item(), "small", results())
        picture = pixels["digits_12_draw0_lrp_paper_dlg"]
        assert picture[0, 1].tolist() == [0, 255, 0]
        assert picture.sum() == 255


class TestArchive:
    @pytest.fixture
    def archive(self, tmp_path):
        shots, pixels = gather(item(), "small", results())
        write(tmp_path / "figure2.npz", shots, pixels)
        return tmp_path / "figure2.npz", shots, pixels

    def test_it_is_read_without_pickle(self, archive):
        path, _, pixels = archive
        with np.load(path, allow_pickle=False) as content:
            assert set(content.files) == {"index", *pixels}
            for name, picture in pixels.items():
                assert content[name].dtype == np.uint8
                assert np.array_equal(content[name], picture)

    def test_its_index_tells_the_pictures_apart(self, archive):
        path, shots, _ = archive
        with np.load(path, allow_pickle=False) as content:
            index = json.loads(content["index"].tobytes())
        assert [line["name"] for line in index] == [picture_name(shot) for shot in shots]
        line = next(line for line in index if line["name"] == "digits_45_draw1_lrp_knowing_dlg")
        assert line == {
            "name": "digits_45_draw1_lrp_knowing_dlg",
            "dataset": "digits",
            "image": 45,
            "draw": 1,
            "column": ["lrp", "knowing", "dlg"],
            "scores": {"mse": pytest.approx(45.7)},
            "scale": pytest.approx(1.0),
        }

    def test_the_same_pictures_give_the_same_bytes(self, archive):
        path, shots, pixels = archive
        again = Path("again.npz")
        write(again, shots, pixels)
        assert again.read_bytes() == path.read_bytes()
