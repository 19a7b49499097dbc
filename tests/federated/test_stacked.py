"""The stacked network equals its models one by one, in float64."""

from collections import OrderedDict

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call
from torch.testing import assert_close

from leaklab.federated.batches import Batch
from leaklab.federated.forms.stacked import StackedNetwork
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

SHAPE, CLASSES, BATCH = (2, 16, 16), 5, 3
EXACT = {"rtol": 0, "atol": 1e-12}


def random_problem(network, groups, models):
    """Return stacked weights, images, labels and dropout masks."""
    draws = stream(0, "problem")
    weights = {n: draws.normal(models, *p.shape) / 4 for n, p in network.named_parameters()}
    images = draws.normal(groups, BATCH, *SHAPE)
    labels = draws.integers(0, CLASSES, groups, BATCH)
    sites = StackedNetwork(network, SHAPE).dropouts
    masks = {n: (draws.uniform(groups, BATCH, *s.shape) >= 0.5) * 2.0 for n, s in sites.items()}
    return weights, images, labels, masks


def one_by_one(network, weights, images, labels, masks):
    """Return losses and gradients of every model, each run as an ordinary module."""
    losses, gradients = [], []
    models = len(next(iter(weights.values())))
    for m in range(models):
        g = m * len(images) // models
        own = {n: w[m].clone().requires_grad_() for n, w in weights.items()}
        values = images[g]
        for name, layer in network.named_children():
            if isinstance(layer, nn.Dropout):
                values = values * masks[name][g]
            else:
                layer_weights = {n.split(".")[1]: w for n, w in own.items() if n.startswith(f"{name}.")}
                values = functional_call(layer, layer_weights, (values,))
        losses.append(F.cross_entropy(values, labels[g]))
        gradients.append(torch.autograd.grad(losses[-1], list(own.values())))
    stacked = [torch.stack(tensors) for tensors in zip(*gradients, strict=True)]
    return torch.stack(losses).detach(), dict(zip(weights, stacked, strict=True))


def together(network, weights, images, labels, masks):
    return StackedNetwork(network, SHAPE).gradients(weights, Batch(images, labels, masks))


def odd_network():
    """Layers in unusual order: dropout on planes and before the first weights, overlapping pooling, no biases."""
    return nn.Sequential(OrderedDict(
        drop0=nn.Dropout(0.5), pool0=nn.MaxPool2d(3, stride=1, padding=1),
        conv1=nn.Conv2d(2, 4, 3, padding=1, stride=2),
        drop1=nn.Dropout(0.5), act=nn.Sigmoid(), conv2=nn.Conv2d(4, 3, 3, bias=False, dilation=2), relu=nn.ReLU(),
        flatten=nn.Flatten(), drop2=nn.Dropout(0.5), fc=nn.Linear(48, CLASSES, bias=False),
    )).double()  # fmt: skip


NETWORKS = {
    name: lambda name=name: plugins.load("models", name).build(SHAPE, CLASSES).double()
    for name in ("logistic-regression", "mlp", "cnn-small", "dlg-lenet")
} | {"odd": odd_network}


@pytest.mark.parametrize(("groups", "models"), [(1, 1), (1, 3), (3, 3), (2, 6)])
@pytest.mark.parametrize("name", NETWORKS)
def test_losses_and_gradients_equal_those_of_single_modules(name, groups, models):
    network = NETWORKS[name]()
    problem = random_problem(network, groups, models)
    assert_close(together(network, *problem), one_by_one(network, *problem), **EXACT)


def test_without_masks_it_is_in_evaluation_state():
    network = NETWORKS["mlp"]().eval()
    weights, images, _, _ = random_problem(network, 1, 1)
    expected = functional_call(network, {n: w[0] for n, w in weights.items()}, (images[0],))
    assert_close(StackedNetwork(network, SHAPE).logits(weights, images, {})[0].T, expected, **EXACT)


def test_one_model_that_blows_up_leaves_the_others_alone():
    network = NETWORKS["cnn-small"]()
    weights, images, labels, masks = random_problem(network, 1, 3)
    calm, gradients = together(network, weights, images, labels, masks)
    broken = {n: torch.cat([w[:1] * float("nan"), w[1:]]) for n, w in weights.items()}
    losses, others = together(network, broken, images, labels, masks)
    assert losses[0].isnan()
    assert_close(losses[1:], calm[1:], **EXACT)
    assert_close({n: g[1:] for n, g in others.items()}, {n: g[1:] for n, g in gradients.items()}, **EXACT)


def test_an_unknown_layer_is_named():
    network = nn.Sequential(OrderedDict(norm=nn.BatchNorm2d(2), flatten=nn.Flatten()))
    with pytest.raises(UserError, match=r"layer 'norm' \(BatchNorm2d\) cannot be trained stacked: use Linear"):
        StackedNetwork(network, SHAPE)


def test_dropout_sites_know_their_shape():
    sites = StackedNetwork(odd_network(), SHAPE).dropouts
    assert [site.shape for site in sites.values()] == [(2, 16, 16), (4, 8, 8), (48,)]
