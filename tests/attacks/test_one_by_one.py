"""Trials taken one by one have the gradients and updates of trials that a network is mapped over."""

import pytest
import torch

from leaklab.attacks.matching.gradients import general_gradients, layered_gradients
from leaklab.attacks.matching.one_by_one import gradients_one_by_one, one_by_one, updates_one_by_one
from leaklab.attacks.matching.steps import PLAIN_STEPS, LocalSteps, simulated_delta
from leaklab.records import plugins
from leaklab.records.streams import stream

CLASSES, SHAPE = 10, (1, 8, 8)


def network_of(name, **settings):
    network = plugins.load("models", name, settings).initialised(SHAPE, CLASSES, 0, torch.float64).eval()
    return network.requires_grad_(requires_grad=False)


def samples(trials, batch):
    images = stream(0, "images").uniform(trials, batch, *SHAPE)
    return images.requires_grad_(), torch.softmax(stream(0, "targets").normal(trials, batch, CLASSES), -1)


def pulled_back(found, images):
    """The derivative of a weighed sum of what was found."""
    outer = [stream(1, "outer", place).normal(*one.shape) for place, one in enumerate(found)]
    return torch.autograd.grad(found, images, outer)[0]


@pytest.mark.parametrize("name", ["dlg-lenet", "resnet-small"])
def test_gradients_and_their_derivatives_are_those_of_the_mapped_network(name):
    network, (images, targets) = network_of(name), samples(3, 2)
    found, mapped = gradients_one_by_one(network, images, targets), general_gradients(network, images, targets)
    torch.testing.assert_close(found, mapped)
    torch.testing.assert_close(pulled_back(found, images), pulled_back(mapped, images))


ORDER = torch.tensor([[0, 1], [2, 3], [1, 2]])


@pytest.mark.parametrize("steps", [PLAIN_STEPS, LocalSteps(0.9, 0.01), LocalSteps(order=ORDER)])
def test_updates_and_their_derivatives_are_those_of_the_mapped_steps(steps):
    network, (images, targets), rates = network_of("dlg-lenet"), samples(2, 4), [0.1, 0.2, 0.3]
    found = updates_one_by_one(network, images, targets, rates, steps)
    told = torch.tensor(rates, dtype=torch.float64).expand(2, -1)
    mapped = [one / -sum(rates) for one in simulated_delta(network, images, targets, told, steps).values()]
    torch.testing.assert_close(found, mapped)
    torch.testing.assert_close(pulled_back(found, images), pulled_back(mapped, images))


def test_a_trial_does_not_depend_on_the_others_to_the_last_digit():
    network, (images, targets) = network_of("dlg-lenet"), samples(3, 1)
    every = updates_one_by_one(network, images, targets, [0.1, 0.1], PLAIN_STEPS)
    alone = updates_one_by_one(network, images[[1]], targets[[1]], [0.1, 0.1], PLAIN_STEPS)
    assert all(torch.equal(one[[1]], own) for one, own in zip(every, alone, strict=True))


@pytest.mark.parametrize(("name", "client", "way"), [
    ("dlg-lenet", None, layered_gradients),
    ("dlg-lenet", ([0.1], PLAIN_STEPS), layered_gradients),
    ("resnet-small", None, gradients_one_by_one),
])  # fmt: skip
def test_one_gradient_is_taken_the_fastest_way(name, client, way, monkeypatch):
    monkeypatch.setattr("leaklab.attacks.matching.gradients.library", lambda: None)  # a machine without a compiler
    assert one_by_one(network_of(name), client) is way
