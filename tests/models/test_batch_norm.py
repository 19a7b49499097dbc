"""Batch normalisation has a mean and a variance to average, and no counter."""

from collections import OrderedDict
from copy import deepcopy
from dataclasses import dataclass

import pytest
import torch
from torch import nn

from leaklab.models.base import Architecture, feature_count
from leaklab.models.normalisation import without_counters
from leaklab.records.streams import stream

BUFFERS = ["block.norm.running_mean", "block.norm.running_var"]


@dataclass(frozen=True)
class Normed(Architecture):
    """A composite block with a batch normalisation inside."""

    initialisation: str = "pytorch"

    def layers(self, input_shape, num_classes):
        block = nn.Sequential(OrderedDict(conv=nn.Conv2d(input_shape[0], 2, 3), norm=nn.BatchNorm2d(2)))
        features = {"block": block, "flatten": nn.Flatten()}
        return features | {"fc": nn.Linear(feature_count(features, input_shape), num_classes)}


def network(seed=0):
    return Normed().initialised((1, 3, 3), 4, seed, torch.float64)


def test_the_only_buffers_are_mean_and_variance():
    built = Normed().build((1, 3, 3), 4)
    assert [name for name, _ in built.named_buffers()] == BUFFERS
    assert built.block.norm.running_mean.tolist() == [0, 0]
    assert built.block.norm.running_var.tolist() == [1, 1]
    assert built.training
    assert all(layer.training for layer in built.modules())


def test_it_normalises_and_keeps_running_statistics_as_torch_does():
    ours, images = network().train(), stream(0, "images").normal(5, 1, 3, 3)
    torchs = nn.BatchNorm2d(2).double()
    for _ in range(2):
        ours(images)
        torchs(ours.block.conv(images))
    assert torch.equal(ours.block.norm.running_mean, torchs.running_mean)
    assert torch.equal(ours.block.norm.running_var, torchs.running_var)
    assert ours.block.norm.num_batches_tracked is None


@pytest.mark.parametrize("copy", [lambda module: module, deepcopy])
@pytest.mark.parametrize("counters", [False, True])
def test_weights_load_strictly_from_a_plain_dict_with_or_without_counters(copy, counters):
    donor, receiver = network(seed=1).train(), copy(network(seed=2))
    donor(stream(0, "images").normal(5, 1, 3, 3))
    state = dict(donor.state_dict())
    if counters:
        state["block.norm.num_batches_tracked"] = torch.tensor(9)
    receiver.load_state_dict(state, strict=True)
    assert all(torch.equal(value, donor.state_dict()[name]) for name, value in receiver.state_dict().items())
    assert receiver.block.norm.num_batches_tracked is None


def test_a_misspelt_entry_is_still_refused():
    state = dict(network().state_dict()) | {"block.norm.running_men": torch.zeros(2)}
    with pytest.raises(RuntimeError, match="running_men"):
        network().load_state_dict(state, strict=True)


def test_without_counters_works_in_place():
    layer = nn.BatchNorm2d(3)
    assert without_counters(layer) is layer
    assert "num_batches_tracked" not in layer.state_dict()
