"""The explicit form of affine networks does exactly what autograd and a plain step do."""

from collections import OrderedDict

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from leaklab.federated.batches import Batch
from leaklab.federated.forms.dense import DenseNetwork, is_dense
from leaklab.federated.forms.stacked import StackedNetwork
from leaklab.federated.optimizers import Sgd
from leaklab.records import plugins
from leaklab.records.streams import stream

SHAPE, CLASSES, BATCH = (2, 3, 4), 5, 7


def deep():
    """Two hidden layers, dropout before and after the activation, two activations in a row."""
    return nn.Sequential(OrderedDict(
        flatten=nn.Flatten(), fc1=nn.Linear(24, 9), drop1=nn.Dropout(0.3), relu1=nn.ReLU(), drop2=nn.Dropout(0.4),
        fc2=nn.Linear(9, 8), relu2=nn.ReLU(), relu3=nn.ReLU(), fc3=nn.Linear(8, CLASSES),
    ))  # fmt: skip


NETWORKS = {"deep": deep} | {
    name: lambda name=name: plugins.load("models", name).build(SHAPE, CLASSES)
    for name in ("logistic-regression", "mlp")
}


def case(network, groups, models):
    draws = stream(0, "case", groups, models)
    weights = {name: draws.normal(models, *value.shape) for name, value in network.named_parameters()}
    sites = StackedNetwork(network, SHAPE).dropouts
    masks = {
        name: (draws.uniform(groups, BATCH, *site.shape) >= site.probability) / (1 - site.probability)
        for name, site in sites.items()
    }
    images, labels = draws.normal(groups, BATCH, *SHAPE), draws.integers(0, CLASSES, groups, BATCH)
    return weights, Batch(images, labels, masks), draws.uniform(models)


@pytest.mark.parametrize(("groups", "models"), [(1, 1), (1, 3), (3, 3), (2, 6)])
@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_folded_step_is_gradient_and_step(name, groups, models, decay):
    network = NETWORKS[name]().double()
    weights, batch, rates = case(network, groups, models)
    losses, gradients = StackedNetwork(network, SHAPE).gradients(weights, batch)
    expected = {name: value.clone() for name, value in weights.items()}
    Sgd().step({}, expected, gradients, rates, decay)
    images = batch.images.clone()
    found = DenseNetwork(network, SHAPE).descend(weights, batch, rates, decay)
    assert_close(found, losses, rtol=0, atol=1e-12)
    assert_close(weights, expected, rtol=0, atol=1e-12)
    assert torch.equal(images, batch.images)


@pytest.mark.parametrize("name", NETWORKS)
def test_outputs_equal_the_stacked_form(name):
    network = NETWORKS[name]().double()
    weights, batch, _ = case(network, 2, 6)
    for masks in (batch.masks, {}):
        expected = StackedNetwork(network, SHAPE).logits(weights, batch.images, masks)
        assert_close(DenseNetwork(network, SHAPE).logits(weights, batch.images, masks), expected, rtol=0, atol=1e-12)


def test_only_affine_networks_with_biases_are_dense():
    assert is_dense(deep())
    assert not is_dense(plugins.load("models", "cnn-small").build((1, 28, 28), 10))
    assert not is_dense(nn.Sequential(nn.Flatten(), nn.Linear(24, 5, bias=False)))
    assert not is_dense(nn.Sequential(nn.Flatten(), nn.ReLU(), nn.Linear(24, 5)))
    assert not is_dense(nn.Sequential(nn.Flatten(), nn.Linear(24, 5), nn.ReLU()))
