"""Attackers who know what a guest trains on, which network, and where its update cannot point."""

from pathlib import Path

import pytest
import torch

from leaklab.attacks.annealed import AnnealedMap
from leaklab.guests.calls import Subject
from leaklab.guests.description import describe
from leaklab.guests.exposure import Attacker, Exposure
from leaklab.guests.informed import informed
from leaklab.guests.judge import control
from leaklab.guests.laboratory import Laboratory
from leaklab.records.errors import UserError

HEAD = "import torch\nfrom torch import nn\nfrom leaklab import Defense\nclass Mine(Defense):\n"
MIRRORED = HEAD + "    def samples(self, images, labels, context):\n        return 1 - images.flip(3), labels\n"
DROPPED = HEAD + (
    "    def network(self, network):\n"
    "        return nn.Sequential(*network[:-1], nn.Linear(588, 100), nn.Dropout(0.5), nn.Linear(100, 10))\n"
)
EXAMPLES = Path(__file__).parents[2] / "docs/examples"


def arena_of(tmp_path, source, network):
    file = tmp_path / "mine.py"
    file.write_text(source)
    return Exposure(Subject.load(file), network)


def attacker_of(arena):
    (found,) = informed(arena, describe(Laboratory(arena.subject, arena.network)))
    return found


def gains_of(arena, attacker):
    read = arena.read(attacker, arena.defended)
    truth = arena.private.images
    gains = zip(read.scores(truth), arena.guesses().scores(truth), strict=True)
    return min(found - guess for found, guess in gains), read


def test_samples_that_are_changed_are_turned_back(tmp_path):
    arena = arena_of(tmp_path, MIRRORED, "mlp")
    attacker = attacker_of(arena)
    assert attacker.by == "samples-turned-back"
    gain, read = gains_of(arena, attacker)
    assert gain > 10
    assert read.labels.tolist() == arena.private.labels.tolist()
    assert gains_of(arena, Attacker("unaware", "annealed-map", AnnealedMap()))[0] < 0


def test_what_goes_into_an_affine_layer_is_read_whatever_is_drawn_behind_it(tmp_path):
    arena = arena_of(tmp_path, DROPPED, "lenet")
    attacker = attacker_of(arena)
    assert attacker.by == "features-first"
    assert gains_of(arena, attacker)[0] > 10


def test_a_network_that_is_changed_is_that_of_the_attackers_and_the_undefended_one_is_not(tmp_path):
    arena = arena_of(tmp_path, DROPPED, "lenet")
    assert control(arena)
    assert list(arena.plain[0]) == list(arena.original.weights)
    assert list(arena.defended[0]) == list(arena.stage.weights) != list(arena.original.weights)
    for kind, weights in (("undefended", arena.original.weights), ("unaware", arena.stage.weights)):
        updates = arena.plain if kind == "undefended" else arena.defended
        case = arena.case(updates, Attacker(kind, "annealed-map", AnnealedMap()), 1)
        assert list(case.observation.weights) == list(weights)
    # in evaluation state the gradient of its loss is what laws are learnt against
    rehearsed, images, labels = arena.moments[0], arena.private.images[:1], arena.private.labels[:1]
    wanted = arena.stage.gradient(images, labels)
    assert all(torch.equal(value, rehearsed.gradients[0][name]) for name, value in wanted.items())


def test_who_finds_no_affine_layer_says_so(tmp_path):
    source = HEAD + (
        "    def network(self, network):\n"
        "        return nn.Sequential(*network[:-2], nn.Conv2d(12, 10, 7, bias=False), nn.Flatten())\n"
    )
    arena = arena_of(tmp_path, source, "lenet")
    with pytest.raises(UserError, match="affine layer"):
        arena.read(attacker_of(arena), arena.defended)


def test_censor_tells_lengths_and_a_direction_of_each_tensor():
    arena = Exposure(Subject.load(EXAMPLES / "censor.py"), "lenet")
    attacker = attacker_of(arena)
    assert attacker.by == "orthogonal-and-as-long"
    read, truth = arena.read(attacker, arena.defended), arena.private.images
    assert int((read.labels == arena.private.labels).sum()) >= 4
    assert sum(read.scores(truth)) > sum(arena.guesses().scores(truth))
