"""A defense, model, partition and metric of one's own are one file each; attacks: ``attacks/test_own_attack.py``,
figures: ``report/figures/test_own_renderer.py``."""

import pytest
import torch

from leaklab.captures.capture import capture
from leaklab.data.deal import deal
from leaklab.items.expand import expand
from leaklab.items.items import Item
from leaklab.metrics.scoring import image_scores, load_metrics
from leaklab.planning.code import code_of
from leaklab.planning.plan import Job
from leaklab.planning.resources import cost
from leaklab.records import plugins

HALVING = """
from collections.abc import Mapping

from torch import Tensor

from leaklab.defenses.base import ClientContext, Defense


class Halving(Defense):
    def gradient(self, gradients: Mapping[str, Tensor], context: ClientContext) -> Mapping[str, Tensor]:
        return {name: value / 2 for name, value in gradients.items()}


PLUGIN = Halving
"""
SMALL = """
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from torch import nn

from leaklab.models.base import Architecture, Shape


@dataclass(frozen=True)
class Small(Architecture):
    width: int = 5
    initialisation: str = "pytorch"

    def layers(self, input_shape: Shape, num_classes: int) -> Mapping[str, nn.Module]:
        return {
            "flatten": nn.Flatten(),
            "first": nn.Linear(prod(input_shape), self.width),
            "act": nn.Sigmoid(),
            "last": nn.Linear(self.width, num_classes),
        }


PLUGIN = Small
"""
EVENS = '''
from dataclasses import dataclass

import numpy as np

from leaklab.data.partitions.base import Integers
from leaklab.records.draws import Draws


@dataclass(frozen=True)
class Evens:
    """Even labels to one client, odd ones to the other."""

    def deal(self, labels: Integers, draws: Draws) -> list[Integers]:
        return [np.flatnonzero(labels % 2 == rest) for rest in (0, 1)]


PLUGIN = Evens
'''
LARGEST = """
from torch import Tensor

from leaklab.metrics.base import Metric, MetricCard


class Largest(Metric):
    @property
    def card(self) -> MetricCard:
        return MetricCard(
            name="largest", unit="", better="higher", domain="[0, 1]", peak=None, clamping="none", network="",
            input_range="[0, 1]", assignment="", averaging="one value per image", note="",
        )

    def values(self, reconstruction: Tensor, truth: Tensor) -> Tensor:
        return (reconstruction.double() - truth.double()).abs().flatten(1).amax(1)


PLUGIN = Largest
"""
MINE = {"defenses": ("halving", HALVING), "models": ("small", SMALL), "data/partitions": ("evens", EVENS),
        "metrics": ("largest", LARGEST)}  # fmt: skip
ATTACK = {"dataset": "digits", "images": {"count": 2}, "model": {"name": "small", "width": 6},
          "defense": ["none", "halving"], "attack": "idlg", "iterations": 3, "metrics": ["mse", "largest"]}  # fmt: skip
TRAINING = {"stage": "train", "dataset": "digits", "partition": "evens", "model": "small", "defense": "halving",
            "rounds": 2, "clients_per_round": 2, "local_steps": 1, "batch_size": 8, "seeds": [0],
            "algorithm": "scheme1", "rates": [[0.1]]}  # fmt: skip


@pytest.fixture
def item(plant):
    """An item that names a plug-in of each kind, each a file and nothing else."""
    for room, (name, source) in MINE.items():
        plant(name, source, room)
    files = [path for path in plugins.PACKAGE_FOLDER.rglob("*.py") if not path.is_symlink()]
    assert len([path for path in files if not any(parent.is_symlink() for parent in path.parents)]) == len(MINE)
    return Item.model_validate({
        "paper": "lrp", "item": "mine", "number": 1, "title": "Mine", "kind": "table", "renderer": "table",
        "runs": {"attack": ATTACK, "training": TRAINING}, "scales": {"demo": {}},
    })  # fmt: skip


def test_they_are_planned_with_their_costs_and_their_code(item):
    specs = [run.spec for run in expand(item, "demo")]
    assert {spec.stage for spec in specs} == {"score", "train"}
    assert all(cost(Job(spec).spec).seconds > 0 for spec in specs)
    keys = " ".join(code_of(one).key for spec in specs for one in (spec, *spec.needs()))
    for room, (name, _) in MINE.items():
        assert room == "metrics" or f"{room}/{name}" in keys


def test_a_client_trains_the_network_under_the_defense(item, dataset):
    plain, halved = (run.spec.attack.capture for run in expand(item, "demo") if run.spec.stage == "score")
    sent, half = (capture(one, dataset)[0].update for one in (plain, halved))
    assert sent["first.weight"].shape == (2, 6, 64)
    for name in sent:
        torch.testing.assert_close(half[name], sent[name] / 2)


def test_samples_are_dealt_and_guesses_are_scored(item, dataset):
    (training,) = (run.spec for run in expand(item, "demo") if run.spec.stage == "train")
    labels = dataset.train_labels.numpy()
    (partition,) = (one for one in training.needs() if one.stage == "partition")
    dealt = deal(partition, labels)["clients"]
    assert [{int(labels[index]) % 2 for index in client} for client in dealt] == [{0}, {1}]
    truth = torch.zeros(1, 1, 1, 8, 8)
    (metric,), _ = load_metrics(["largest"])
    assert image_scores([metric], {"best-by-loss": truth + 0.25}, truth)["best-by-loss", "largest"].tolist() == [[0.25]]
