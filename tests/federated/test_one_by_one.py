"""Networks trained one by one behave as ordinary modules in training state."""

from copy import deepcopy
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from leaklab.federated.batches import Batch
from leaklab.federated.forms.network import trainable
from leaklab.federated.forms.one_by_one import OneByOne, channels_last
from leaklab.federated.forms.plain_cnn import PlainCnn
from leaklab.federated.forms.stacked import StackedNetwork
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

SHAPE, CLASSES, CPU = (3, 16, 16), 4, torch.device("cpu")
EXACT = {"rtol": 0, "atol": 1e-11}


@pytest.fixture
def modules():
    model = plugins.load("models", "resnet-small")
    return [model.initialised(SHAPE, CLASSES, seed, torch.float64) for seed in range(4)]


def stacked(modules):
    return {name: torch.stack([m.state_dict()[name] for m in modules]) for name in modules[0].state_dict()}


@pytest.mark.parametrize("training", [True, False])
def test_gradients_losses_and_statistics_equal_those_of_single_modules(modules, training):
    draws = stream(0, "images")
    batch = Batch(draws.normal(2, 5, *SHAPE), draws.integers(0, CLASSES, 2, 5), {})
    network = trainable(deepcopy(modules[0]), SHAPE, CPU, training)
    assert isinstance(network, OneByOne)
    weights = channels_last(stacked(modules))
    losses, gradients = network.gradients(weights, batch)
    for index, module in enumerate(modules):
        loss = F.cross_entropy(module.train(training)(batch.images[index // 2]), batch.labels[index // 2])
        loss.backward()
        assert_close(losses[index], loss.detach(), **EXACT)
        for name, parameter in module.named_parameters():
            assert_close(gradients[name][index], parameter.grad, **EXACT)
        for name in network.buffers:
            assert_close(weights[name][index], module.state_dict()[name], **EXACT)
    assert {name for name in weights if "running" in name} == set(network.buffers)


def test_outputs_are_those_of_the_evaluation_state(modules):
    images = stream(0, "test").normal(1, 5, *SHAPE)
    found = trainable(deepcopy(modules[0]), SHAPE, CPU).logits(stacked(modules), images, {})
    for index, module in enumerate(modules):
        assert_close(found[index].T, module.eval()(images[0]).detach(), **EXACT)


def test_kernels_lie_channels_last(modules):
    weights = channels_last(stacked(modules))
    kernel = next(value for value in weights.values() if value.dim() == 5 and value.shape[2] > 1)
    assert kernel[0].is_contiguous(memory_format=torch.channels_last)


def test_dropout_inside_is_refused():
    block = nn.Sequential(nn.Sequential(nn.Flatten(), nn.Linear(768, 4), nn.Dropout(0.2)))
    with pytest.raises(UserError, match="drops units"):
        trainable(block, SHAPE, CPU)


def test_plain_convolutional_networks_are_written_out_on_cpus_only(monkeypatch):
    monkeypatch.setattr("leaklab.federated.forms.network.library", lambda: None)  # a machine without a compiler
    build = partial(plugins.load("models", "cnn-mnist").build, (1, 28, 28), 10)
    assert isinstance(trainable(build(), (1, 28, 28), CPU), PlainCnn)
    assert isinstance(trainable(build(), (1, 28, 28), torch.device("cuda")), StackedNetwork)
