"""Written-out backpropagation gives the gradients of autograd."""

from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from leaklab.federated.batches import Batch
from leaklab.federated.forms import dense as affine_module
from leaklab.federated.forms.dense import affine, has_fast_product
from leaklab.federated.forms.one_by_one import channels_last
from leaklab.federated.forms.plain_cnn import PlainCnn, is_plain_cnn
from leaklab.records import plugins
from leaklab.records.streams import stream

SHAPE, CLASSES, MODELS = (1, 28, 28), 10, 4
EXACT = {"rtol": 0, "atol": 1e-11}


def small(strided):
    """A network with every layer and setting that the paper's own does not have."""
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2 if strided else 1, padding=1, bias=False),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1),
        nn.Conv2d(4, 6, 3, dilation=2, groups=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(6 * (3 if strided else 10) ** 2, CLASSES, bias=False),
    )


def build(name, seed, dtype=torch.float64):
    if name == "cnn-mnist":
        return plugins.load("models", name).initialised(SHAPE, CLASSES, seed, dtype)
    network, draws = small(name == "strided").to(dtype), stream(seed, "weights")
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(0.3 * draws.normal(*parameter.shape))
    return network


def batches(groups, dtype=torch.float64):
    draws = stream(0, "images")
    return Batch(draws.normal(groups, 6, *SHAPE).to(dtype), draws.integers(0, CLASSES, groups, 6), {})


def stacked(modules):
    return {name: torch.stack([m.state_dict()[name] for m in modules]) for name in modules[0].state_dict()}


def compare(name, dtype, groups, **tolerance):
    modules = [build(name, seed, dtype) for seed in range(MODELS)]
    batch, weights = batches(groups, dtype), channels_last(stacked(modules))
    before = (batch.images.clone(), {name: value.clone() for name, value in weights.items()})
    losses, gradients = PlainCnn(deepcopy(modules[0])).gradients(weights, batch)
    assert list(gradients) == list(weights)
    for index, module in enumerate(modules):
        group = index // (MODELS // groups)
        loss = F.cross_entropy(module(batch.images[group]), batch.labels[group])
        loss.backward()
        assert_close(losses[index], loss.detach(), **tolerance)
        for key, parameter in module.named_parameters():
            assert_close(gradients[key][index], parameter.grad, **tolerance)
    assert torch.equal(batch.images, before[0])
    assert all(torch.equal(weights[key], before[1][key]) for key in weights)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("name", ["cnn-mnist", "strided", "dense"])
def test_losses_and_gradients_are_those_of_autograd(name, groups):
    compare(name, torch.float64, groups, **EXACT)


def test_in_single_precision_too():
    compare("cnn-mnist", torch.float32, 2, rtol=1e-4, atol=1e-5)


def test_outputs_are_those_of_the_module():
    modules = [build("strided", seed) for seed in range(2)]
    images = batches(1).images
    found = PlainCnn(deepcopy(modules[0])).logits(stacked(modules), images, {})
    for index, module in enumerate(modules):
        assert_close(found[index].T, module(images[0]).detach(), **EXACT)


@pytest.mark.parametrize(
    ("layers", "known"),
    [
        ([nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2, 2)], True),
        ([nn.Flatten(), nn.Linear(4, 2)], False),
        ([nn.ReLU(), nn.Conv2d(1, 2, 3)], False),
        ([nn.Conv2d(1, 2, 3, padding="same")], False),
        ([nn.Conv2d(1, 2, 3, padding=1, padding_mode="reflect")], False),
        ([nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)], False),
        ([nn.Conv2d(1, 2, 3), nn.Dropout(0.5)], False),
        ([nn.Conv2d(1, 2, 3), nn.Sigmoid()], False),
        ([], False),
    ],
)
def test_only_known_layers_are_taken(layers, known):
    assert is_plain_cnn(nn.Sequential(*layers)) is known


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_products_are_those_of_torch(dtype, bias, monkeypatch):
    monkeypatch.setattr(affine_module, "WIDE", 1)
    draws = stream(0, "product")
    rows, weight, offset = (draws.normal(*shape).to(dtype) for shape in ((5, 7), (3, 7), (3,)))
    used = offset if bias else None
    assert has_fast_product(rows) == (dtype == torch.float32 and torch.backends.mkldnn.is_available())
    assert_close(affine(rows, weight, used), F.linear(rows, weight, used), rtol=1e-5, atol=1e-6)
