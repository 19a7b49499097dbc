"""Every defense is pure (F14) and none is a no-op by accident."""

import pytest
import torch

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
    return {"conv1.weight": draws.normal(4, 1, 3, 3).to(request.param), "fc.bias": draws.normal(5).to(request.param)}


@pytest.mark.parametrize("hook", ["gradient", "update"])
def test_inputs_stay_and_types_are_kept(name, tensors, hook, context):
    before = {key: value.clone() for key, value in tensors.items()}
    state = torch.get_rng_state()
    at_step = context.at(Alone(0, dict(before), {"images": torch.zeros(2, 1, 4, 4), "labels": torch.zeros(2)}))
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
