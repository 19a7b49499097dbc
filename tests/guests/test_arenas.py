"""Arenas: those of the house have a premise and keep their private images, one's own is a file."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from typer.testing import CliRunner

from leaklab.attacks.annealed import AnnealedMap
from leaklab.cli import app
from leaklab.guests import arenas, moments
from leaklab.guests.calls import Subject
from leaklab.guests.card import NOT_MEASURED, card_of
from leaklab.guests.exposure import Attacker, Exposure
from leaklab.guests.files import find
from leaklab.guests.verdict import gain
from leaklab.records.errors import UserError

MINE = {
    "title": "noise in two colours",
    "images": "mine.npz",
    "networks": {"mlp": {"words": "an MLP", "model": "mlp", "settings": {"dropout": 0.0}}},
    "rehearsals": 4,
    "updates": 2,
}


@pytest.fixture
def guest(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def defend(gradients):\n    return {name: value / 2 for name, value in gradients.items()}\n")
    return file


def arrays(**changes):
    draws = np.random.default_rng(0)
    part = {}
    for name, count in (("public", 40), ("private", 8)):
        part[f"{name}_images"] = draws.integers(0, 256, (count, 3, 6, 5), dtype=np.uint8)
        part[f"{name}_labels"] = np.arange(count) % 4
    return {**part, **changes}


def own(folder, content=None, **changes):
    """Write an arena of one's own, and return its file."""
    np.savez(folder / "mine.npz", **(arrays() if content is None else content))
    file = folder / "mine.yaml"
    file.write_text(yaml.safe_dump({key: value for key, value in {**MINE, **changes}.items() if value is not None}))
    return file


@pytest.mark.parametrize("name", arenas.names())
def test_the_private_images_are_not_public(name):
    arena = moments.load(name)
    public = {image.numpy().tobytes() for image in arena.public.images}
    assert not public & {image.numpy().tobytes() for image in arena.private.images}
    assert set(arena.private.labels.tolist()) <= set(range(arena.classes)) == set(arena.public.labels.tolist())
    rehearsed = arena.public.labels[: arena.file.rehearsals]
    assert len(rehearsed.unique()) > 1  # a law that is learnt from one class says nothing of the others


@pytest.mark.parametrize("name", moments.Ground.READERS)
def test_the_files_are_those_of_the_catalog(name):
    catalog = yaml.safe_load((Path(__file__).parents[2] / "config/datasets.yaml").read_text(encoding="utf-8"))
    listed = {role: f"{file['package']}/{file['path']}" for role, file in catalog[name]["embedded"]["files"].items()}
    assert moments.Ground.READERS[name][1].items() <= listed.items()


@pytest.mark.parametrize("name", [name for name in arenas.names() if name != "tiny"])
def test_without_a_defense_images_are_read(name, guest):
    """On the first network; an arena in which nothing is read says nothing of any defense."""
    arena = moments.load(name)
    exposure = Exposure(Subject.load(guest), next(iter(arena.file.networks)), arena=arena)
    read = exposure.read(Attacker("undefended", "annealed-map", AnnealedMap()), exposure.plain)
    truth = exposure.private.images
    assert gain(read.decibels(truth), exposure.guesses().decibels(truth)).reads
    assert read.labels.tolist() == exposure.private.labels.tolist()


def test_an_arena_of_ones_own(tmp_path, guest):
    arena = moments.load(str(own(tmp_path)))
    assert (arena.shape, arena.classes) == ((3, 6, 5), 4)
    images = arrays()["private_images"]
    assert torch.equal(arena.private.images, torch.from_numpy(images).double() / 255)
    exposure = Exposure(Subject.load(guest), "mlp", arena=arena)
    assert len(exposure.plain) == 2
    assert exposure.rehearsals.gradients[0].shape == (4 * arena.file.draws, 3 * 6 * 5 * 64)
    assert arena.name.startswith("mine (")
    own(tmp_path, updates=3)
    other = arenas.find(str(tmp_path / "mine.yaml")).name
    own(tmp_path, arrays(private_labels=np.arange(8) % 3), updates=3)
    last = arenas.find(str(tmp_path / "mine.yaml")).name
    assert len({arena.name, other, last}) == 3  # each is another arena, whatever it is called


def test_a_defense_is_judged_there(tmp_path, guest):
    """Six of six, on the one network, with no price: the whole road on a file of one's own."""
    file = own(tmp_path, updates=6, evaluations=5)
    done = CliRunner().invoke(app, ["try", str(guest), "--arena", str(file), "--json", "--budget", "2m"])
    card = json.loads(done.stdout)
    assert list(card["arenas"]) == [arenas.find(str(file)).name]
    (network,) = next(iter(card["arenas"].values())).values()
    assert network["complete"]
    assert network["price"] is None
    assert len(network["rows"][0]["each"]) == 6
    assert done.exit_code == card["status"]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"network": 1}, "network: unknown key; known keys are components, draws"),
        ({"title": None}, "title: Field required"),
        ({"networks": {}}, "networks: "),
        ({"updates": 0}, "updates: "),
        ({"networks": {"price": MINE["networks"]["mlp"]}}, "networks.price: name it otherwise"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path, changes, line):
    with pytest.raises(UserError) as caught:
        arenas.find(str(own(tmp_path, **changes)))
    assert line in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "mine.yaml"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "changes", "line"),
    [
        (None, {"networks": {"a": {"words": "", "model": "mpl"}}}, "network a: unknown models plug-in 'mpl'"),
        (None, {"images": "other.npz"}, "other.npz is missing: images are digits, faces, photographs, or an npz file"),
        (None, {"images": "mine.yaml"}, "mine.yaml: no npz file with public_images"),
        ({"public_images": np.zeros(3)}, {}, "mine.npz: no npz file with public_images"),
        (arrays(private_images=np.zeros((8, 3, 6, 5))), {}, "images must be uint8"),
        (arrays(private_images=np.zeros((8, 3, 5, 6), np.uint8)), {}, "one size in both parts"),
        (arrays(public_labels=np.arange(39)), {}, "with as many labels"),
        (arrays(private_labels=np.arange(8) - 1), {}, "labels must be whole numbers from 0"),
        (arrays(public_labels=np.arange(40) / 2), {}, "labels must be whole numbers from 0"),
        (None, {"updates": 9}, "40 public and 8 private images are too few for 4 rehearsals and 9 updates"),
        (None, {"rehearsals": 39}, "too few for 39 rehearsals"),
    ],
)
def test_wrong_images_are_one_line(tmp_path, content, changes, line):
    with pytest.raises(UserError) as caught:
        _ = moments.load(str(own(tmp_path, content, **changes))).public
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_arena_that_is_not_there_is_a_wrong_call(tmp_path, guest):
    for name, told in (("ocean", "unknown arena 'ocean'"), (str(tmp_path / "no.yaml"), "no.yaml is missing")):
        done = CliRunner().invoke(app, ["try", str(guest), "--arena", name])
        assert done.exit_code == 2
        assert told.replace(" ", "") in re.sub(r"[\s│]", "", done.output)  # a box of lines, broken anywhere


@pytest.mark.parametrize(("name", "said"), [("tiny", True), ("images", True), ("colour", False)])
def test_a_card_says_what_its_arena_did_not_measure(guest, name, said):
    card = card_of(find(guest), arenas.find(name), 0, [], [], {"lenet": None})
    assert ("colour" in card["not measured"]) == said
    assert set(card["not measured"]) <= set(NOT_MEASURED)
