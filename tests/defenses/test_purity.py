"""Every defense is pure (F14) and none is a no-op by accident."""

from collections import OrderedDict

import pytest
import torch
from torch import nn

from leaklab.defenses.base import Alone, Defense, overrides
from leaklab.records import plugins
from leaklab.records.streams import stream

HOOKS = ("local_rate", "gradient", "update", "hidden", "local_steps", "batch_size")


@pytest.fixture(params=plugins.available("defenses"))
def name(request):
    return request.param


@pytest.fixture(params=[torch.float32, torch.float64])
def tensors(request):
    draws = stream(0, "tensors")
    shapes = {name: value.shape for name, value in network().state_dict().items()}
    return {name: draws.normal(*shape).to(request.param) for name, shape in shapes.items()}


def network():
    with torch.device("meta"):  # torch's layers would draw from the global generator
        layers = {"conv1": nn.Conv2d(1, 4, 3), "flatten": nn.Flatten(), "fc": nn.Linear(16, 5)}
    return nn.Sequential(OrderedDict(layers)).to_empty(device="cpu")


@pytest.mark.parametrize("hook", ["gradient", "update"])
def test_inputs_stay_and_types_are_kept(name, tensors, hook, context):
    before = {key: value.clone() for key, value in tensors.items()}
    state = torch.get_rng_state()
    images = stream(1, "images").normal(2, 1, 4, 4).to(before["fc.bias"])
    batch = {"images": images, "labels": torch.zeros(2, dtype=torch.int64)}
    at_step = context.at(Alone(0, dict(before), batch, network))
    result = getattr(plugins.load("defenses", name), hook)(tensors, at_step)
    assert torch.equal(state, torch.get_rng_state())
    assert set(result) == set(before)
    for key, value in before.items():
        assert torch.equal(tensors[key], value)
        assert (result[key].dtype, result[key].device, result[key].shape) == (value.dtype, value.device, value.shape)


def test_only_none_is_neutral(name):
    defense = plugins.load("defenses", name)
    assert isinstance(defense, Defense)
    assert any(overrides(defense, hook) for hook in HOOKS) == (name != "none")


def test_the_neutral_rate_is_the_clients_own(context):
    assert float(plugins.load("defenses", "none").local_rate(context)) == context.scaled_rate
