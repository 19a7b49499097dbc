"""The network of a round follows the weights from step to step, and is built anew where they are not all."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from leaklab.defenses.base import Alone
from leaklab.defenses.per_sample import network_of_round
from leaklab.models.cnns import DLGLeNet
from leaklab.models.resnets import SmallResNet

SHAPE, CLASSES = (1, 8, 8), 5
MODELS = {"dlg-lenet": DLGLeNet(n_conv=3), "resnet-small": SmallResNet(width=4)}


def at_step(client, model, step):
    state = dict(model.initialised(SHAPE, CLASSES, step, torch.float64).state_dict())
    return client.at(Alone(step, state, {}, partial(model.build, SHAPE, CLASSES)))


@pytest.mark.parametrize("name", MODELS)
def test_it_is_the_contexts_own_network_in_every_step(context, name):
    client = replace(context, _streams={})
    for step in range(3):
        here = at_step(client, MODELS[name], step)
        found, expected = network_of_round(here), here.network()
        assert not found.training
        for key, value in expected.state_dict().items():
            assert torch.equal(found.state_dict()[key], value), (step, key)


def test_it_is_built_once_a_round_and_client(context):
    model, client, other = MODELS["dlg-lenet"], replace(context, _streams={}), replace(context, _streams={}, client=8)
    first, second = (network_of_round(at_step(client, model, step)) for step in range(2))
    assert first is second
    assert network_of_round(at_step(other, model, 0)) is not first


def test_running_statistics_are_never_stale(context):
    model, client = MODELS["resnet-small"], replace(context, _streams={})
    first, second = (network_of_round(at_step(client, model, step)) for step in range(2))
    assert first is not second
