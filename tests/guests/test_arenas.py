"""Arenas: those of the house have a premise and keep their private images, one's own is a file."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from typer.testing import CliRunner

from leaklab.attacks.annealed import AnnealedMap
from leaklab.attacks.learnt.emulation import EmulatedLaw
from leaklab.attacks.learnt.linear import learnt
from leaklab.cli import app
from leaklab.defenses.base import loaded
from leaklab.guests import arenas, moments
from leaklab.guests.calls import Subject
from leaklab.guests.card import NOT_MEASURED, card_of
from leaklab.guests.description import describe
from leaklab.guests.exposure import FIRST_CLIENT, Attacker, Exposure, Reading
from leaklab.guests.files import find
from leaklab.guests.judge import control
from leaklab.guests.laboratory import Laboratory
from leaklab.guests.learning import by_steps
from leaklab.guests.maps import Fact
from leaklab.guests.rules import SMALLEST, by_rule
from leaklab.guests.sentences import exposure_of
from leaklab.metrics.gains import gain
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
    exposure = exposure_of(Subject.load(guest), next(iter(arena.file.networks)), 0, arena)
    effort = arena.file.evaluations if arena.samples == 1 else 40
    read = exposure.read(Attacker("undefended", exposure.SEARCH, AnnealedMap()), exposure.plain, effort)
    truth = exposure.private.images
    assert gain(read.scores(truth), exposure.guesses().scores(truth), unit=arena.unit).reads
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


def test_what_is_changed_while_it_is_used_is_refused(tmp_path):
    """The file, and the images beside it; by its name a card tells both."""
    file = str(own(tmp_path))
    name = arenas.find(file).name
    moments.load(file, name)
    own(tmp_path, arrays(private_labels=np.arange(8) % 3))
    with pytest.raises(
        UserError, match=r"mine.yaml, or the data beside it, was changed while it was used: begin again"
    ):
        moments.load.__wrapped__(file, name)


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
        ({"network": 1}, "network: unknown key; known keys are batch, components"),
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


@pytest.mark.parametrize(
    ("name", "channels", "measured"),
    [
        ("tiny", 1, {"what it costs"}),
        ("colour", 3, {"colour", "what it costs"}),
        ("batch", 1, {"batches", "what it costs"}),
        ("steps", 1, {"several local steps", "what it costs"}),
        ("text", 0, {"sentences"}),
    ],
)
def test_a_card_says_what_its_arena_did_not_measure(guest, name, channels, measured):
    row = {"network": "lenet", "attacker": "guess", "scores": [1.0] * 6, "channels": channels}
    card = card_of(find(guest), arenas.find(name), 0, [], [row], {"lenet": None})
    assert set(card["not measured"]) == set(NOT_MEASURED) - measured


# Updates of several images, and of several steps.


@pytest.fixture(params=["batch", "steps"])
def several(request, guest):
    arena = moments.load(request.param)
    return Exposure(Subject.load(guest), "lenet", arena=arena)


def test_an_update_of_several_images_is_that_of_sgd(several):
    """Held against torch's own optimiser, and a guest that does nothing sends the same to the bit."""
    own = several.arena.file
    assert control(several)
    for number, update in enumerate(several.plain):
        images, labels = several.of_update(several.private, number)
        network = loaded(several.original.build, several.original.weights)
        optimiser = torch.optim.SGD(network.parameters(), own.rate)
        for one, label in zip(images.split(own.batch), labels.split(own.batch), strict=True):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(network(one), label).backward()
            optimiser.step()
        for name, value in network.named_parameters():
            sent = (value - several.original.weights[name]) / -(own.rate * own.steps)
            torch.testing.assert_close(update[name], sent.detach(), rtol=1e-9, atol=1e-12)


WATCHES = """
import leaklab

SEEN = []


class Watches(leaklab.Defense):
    def gradient(self, gradients, context):
        SEEN.append((context.weights, context.batch["labels"], gradients))
        return {name: value / 2 for name, value in gradients.items()}
"""


def test_each_step_is_taken_where_the_defended_one_before_led(tmp_path):
    file = tmp_path / "watches.py"
    file.write_text(WATCHES)
    subject, arena = Subject.load(file), moments.load("steps")
    exposure = Exposure(subject, "lenet", arena=arena)
    (moment, *_) = exposure.moments
    update = exposure.out(moment)
    seen, now = subject.module.SEEN, dict(exposure.stage.weights)
    assert len(seen) == arena.file.steps
    for step, (weights, labels, gradients) in enumerate(seen):
        assert labels.tolist() == moment.batch["labels"][step : step + 1].tolist()
        wanted = replace(exposure.stage, weights=now).gradient(moment.batch["images"][step : step + 1], labels)
        for name, value in weights.items():
            torch.testing.assert_close(value, now[name], rtol=1e-12, atol=1e-15)
            torch.testing.assert_close(gradients[name], wanted[name], rtol=1e-9, atol=1e-12)
        now = {name: value - arena.file.rate * gradients[name] / 2 for name, value in now.items()}
    for name, value in update.items():
        end = (now[name] - exposure.stage.weights[name]) / -(arena.file.rate * arena.file.steps)
        torch.testing.assert_close(value, end, rtol=1e-9, atol=1e-12)


def test_images_are_compared_with_those_that_they_belong_to(several):
    """An update's images come back in any order, but not in another update."""
    truth, nobody = several.private.images, Attacker("guess", "", AnnealedMap())
    samples = several.arena.samples
    turned = truth.view(-1, samples, *truth.shape[1:]).flip(1).flatten(0, 1)
    labels = several.private.labels
    assert Reading(nobody, turned, labels, samples).scores(truth) == [150.0] * several.arena.file.updates
    assert Reading(nobody, turned, labels, samples).in_order(truth).equal(truth)
    elsewhere = Reading(nobody, truth.roll(samples, 0), labels, samples)
    assert max(elsewhere.scores(truth)) < 30
    assert several.labels_read(elsewhere) is None  # they were granted


def test_several_images_of_a_halved_update_are_read_by_who_asks_for_no_length(several):
    """The attackers of the house take such updates; on the MLP its first layer gives them away."""
    exposure = replace(several, network="mlp")
    facts = describe(Laboratory(exposure.subject, "mlp", exposure.arena))
    who = {attacker.by: attacker for attacker in by_rule(exposure, facts)}
    assert list(who) == ["peel", "profiled-scale"]
    truth, guesses = exposure.private.images, exposure.guesses().scores(exposure.private.images)
    assert gain(exposure.read(who["peel"], exposure.defended).scores(truth), guesses).reads
    assert gain(exposure.read(who["profiled-scale"], exposure.defended, 20).scores(truth), guesses).reads


def test_each_step_is_compressed_and_who_knows_it_tells_the_steps_apart(compressing):
    """One gradient that stands for both steps has other entries missing than either of them."""
    arena = moments.load("steps")
    arena = replace(arena, file=arena.file.model_copy(update={"updates": 2}))
    exposure = Exposure(Subject.load(compressing), "lenet", arena=arena)
    facts = [Fact("zeros", {"share": 0.9, "rest": "exact", "chosen": SMALLEST}, "", "")]
    (knows,) = (one for one in by_rule(exposure, facts) if one.by == "ranked-mixture")
    truth = exposure.private.images
    assert min(exposure.read(knows, exposure.defended, 20).scores(truth)) > 28
    assert max(exposure.read(Attacker("unaware", "", AnnealedMap()), exposure.defended, 20).scores(truth)) < 15


@pytest.mark.parametrize(("law", "who"), [("normal", "matched-noise"), ("Laplace", "matched-noise, a normal law")])
def test_the_mean_of_steps_has_less_noise_than_one(several, law, who):
    facts = [Fact("noise", {"law": law, "sigma": 0.1}, "", "")]
    (found, _) = by_rule(several, facts)
    steps = several.arena.file.steps
    if steps == 1 and law == "Laplace":
        assert found.by == "matched-laplace"
    else:
        assert found.by.startswith(who)
        assert found.distance.sigma == pytest.approx(0.1 / steps**0.5)


def test_the_file_itself_is_run_in_each_step(several):
    """A clip of each of two gradients is not the clip of their mean; at the true ones nothing is left."""
    draws = torch.Generator().manual_seed(0)
    gradients = torch.randn(2, 3, 7, generator=draws, dtype=torch.float64)  # of two updates, three steps each

    def clipped(gradient):
        return [value / value.norm().clamp(min=1) for value in gradient]

    law, shares = by_steps(EmulatedLaw(clipped)), (0.2, 0.3, 0.5)
    sent = sum(share * gradients[:, k] / gradients[:, k].norm(dim=1, keepdim=True).clamp(min=1)
               for k, share in enumerate(shares))  # fmt: skip
    value, slope, _ = law.of_steps(0.1, {}, shares)([gradients], [sent])
    assert value.tolist() == pytest.approx([0, 0], abs=1e-20)
    assert slope[0].shape == gradients.shape
    assert law.widened(0.1, {})([gradients.mean(1)], [sent])[0].min() > 1


def test_laws_are_learnt_from_updates_of_as_many_images(several):
    rehearsals, file = several.rehearsals, several.arena.file
    first = several.moment(*several.of_update(several.arena.public, 0), FIRST_CLIENT).plain()
    for gradients, name in zip(rehearsals.gradients, several.sent_names, strict=True):
        assert len(gradients) == file.rehearsals * file.draws
        assert torch.equal(gradients[0], first[name].flatten())
    assert learnt(rehearsals).scope == "none"
    assert max(abs(gain - 0.5) for gain in learnt(rehearsals).gains) < 0.1
