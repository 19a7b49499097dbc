"""Gradients of trials by compiled steps, and derivatives through them, are those of autograd."""

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing import assert_close

from leaklab.attacks.matching import gradients as matching
from leaklab.attacks.matching.compiled import CompiledGradients, can_be_compiled
from leaklab.attacks.matching.gradients import general_gradients, layered_gradients, trial_gradients
from leaklab.models.lanes.description import Description
from leaklab.models.lanes.library import library
from leaklab.records import plugins
from leaklab.records.streams import stream

pytestmark = pytest.mark.skipif(library() is None, reason="no compiled steps on this machine")

EXACT = {"rtol": 0, "atol": 1e-11}
CLASSES = 10


def odd():
    """Layers and sizes that no model has: strides, borders, windows of three, an activation before a pooling."""
    return nn.Sequential(
        nn.Conv2d(3, 7, (3, 2), stride=2, padding=2), nn.Sigmoid(), nn.Conv2d(7, 5, 1, bias=False), nn.LeakyReLU(0.2),
        nn.MaxPool2d(2), nn.Conv2d(5, 9, 2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(9 * 4 * 5, 17, bias=False),
        nn.Sigmoid(), nn.Linear(17, CLASSES),
    )  # fmt: skip


class Scaled(nn.Module):
    """Prepares images, as the normalisation before a victim does."""

    def forward(self, values):
        return 2 * values - 1


CASES = {
    "dlg-lenet": (1, 28, 28), "cnn-small": (1, 28, 28), "cnn-leaky": (3, 32, 32), "odd": (3, 12, 13),
    "prepared": (3, 12, 13), "cnn-mnist": (1, 28, 28),
}  # fmt: skip


def build(name, dtype=torch.float64):
    shape, draws = CASES[name], stream(0, name)
    settings = {"cnn-leaky": {"convolutions": 3}, "cnn-small": {"dropout": 0.0}}.get(name, {})
    if name == "prepared":
        network = nn.Sequential(Scaled(), *odd())
    else:
        network = odd() if name == "odd" else plugins.load("models", name, settings).build(shape, CLASSES)
    for parameter in network.parameters():
        size = parameter[0].numel() ** 0.5
        parameter.data = (draws.normal(*parameter.shape) / size).to(dtype)
    return network.to(dtype).eval().requires_grad_(False)


def through(function, network, images, targets):
    """Return gradients and, for outer derivatives that depend on them, the derivatives at images and targets."""
    inputs, wanted = images.clone().requires_grad_(), targets.clone().requires_grad_()
    found = function(network, inputs, wanted)
    outer = [value.detach().sin() for value in found]
    return [value.detach() for value in found], torch.autograd.grad(found, (inputs, wanted), outer)


def samples(name, trials, batch, dtype=torch.float64):
    draws = stream(1, name)
    images = draws.uniform(trials, batch, *CASES[name]).to(dtype)
    return images, (2 * draws.normal(trials, batch, CLASSES)).softmax(2).to(dtype)


@pytest.mark.parametrize(("trials", "batch"), [(1, 1), (3, 1), (9, 1), (2, 5), (1, 17)])
@pytest.mark.parametrize("name", CASES)
def test_gradients_and_derivatives_are_those_of_autograd_whatever_fills_a_vector(name, trials, batch):
    network, (images, targets) = build(name), samples(name, trials, batch)
    ours = through(CompiledGradients(network, library(), layered_gradients), network, images, targets)
    for one, other in zip(ours, through(layered_gradients, network, images, targets), strict=True):
        for value, expected in zip(one, other, strict=True):
            assert_close(value, expected, **EXACT)


@pytest.mark.parametrize("name", CASES)
def test_in_single_precision_only_roundings_differ(name):
    network, (images, targets) = build(name, torch.float32), samples(name, 3, 2, torch.float32)
    ours = through(CompiledGradients(network, library(), layered_gradients), network, images, targets)
    for one, other in zip(ours, through(layered_gradients, network, images, targets), strict=True):
        for value, expected in zip(one, other, strict=True):
            assert_close(value, expected, rtol=0, atol=float(expected.abs().max()) * 2e-5)


def test_a_trial_has_the_same_bytes_alone_and_among_others():
    network, (images, targets) = build("dlg-lenet"), samples("dlg-lenet", 5, 3)
    compiled = CompiledGradients(network, library(), layered_gradients)
    found, derivatives = through(compiled, network, images, targets)
    for trial in range(5):
        one = slice(trial, trial + 1)
        alone = through(compiled, network, images[one], targets[one])
        assert all(torch.equal(value, every[one]) for value, every in zip(alone[0], found, strict=True))
        assert all(torch.equal(value, every[one]) for value, every in zip(alone[1], derivatives, strict=True))


def test_derivatives_are_those_of_their_own_gradients_when_others_were_asked_for_meanwhile():
    network, (images, targets) = build("cnn-small"), samples("cnn-small", 2, 1)
    compiled = CompiledGradients(network, library(), layered_gradients)
    inputs, others = images.clone().requires_grad_(), (images.flip(0) + 1).requires_grad_()
    first = compiled(network, inputs, targets)
    outer = [value.detach().sin() for value in first]
    compiled(network, others, targets)
    expected = through(layered_gradients, network, images, targets)[1][0]
    assert_close(torch.autograd.grad(first, inputs, outer)[0], expected, **EXACT)


def test_weights_that_changed_since_are_seen():
    network, (images, targets) = build("cnn-small"), samples("cnn-small", 2, 1)
    compiled = CompiledGradients(network, library(), layered_gradients)
    compiled(network, images, targets)
    for parameter in network.parameters():
        parameter.data.mul_(0.5)
    ours, theirs = (through(way, network, images, targets)[0] for way in (compiled, layered_gradients))
    assert all(torch.allclose(one, other, rtol=0, atol=1e-11) for one, other in zip(ours, theirs, strict=True))


def test_what_the_library_does_not_know_is_left_to_other_ways(monkeypatch):
    mlp = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    smooth = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(8, 3))
    mixed = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 3))
    assert isinstance(trial_gradients(build("dlg-lenet")), CompiledGradients)
    assert trial_gradients(mlp) is layered_gradients
    assert trial_gradients(smooth) is layered_gradients
    assert trial_gradients(mixed) is general_gradients
    assert not can_be_compiled(build("dlg-lenet").to(torch.bfloat16))
    monkeypatch.setattr(matching, "library", lambda: None)
    assert trial_gradients(build("dlg-lenet")) is layered_gradients


@pytest.mark.parametrize(("name", "few"), [("dlg-lenet", 0), ("cnn-small", 0), ("cnn-leaky", 2), ("cnn-mnist", 8)])
def test_few_samples_of_a_network_with_many_products_are_left_to_the_faster_way(monkeypatch, name, few):
    monkeypatch.setattr(matching, "layered_gradients", lambda *given: asked.append(given) or layered_gradients(*given))
    asked, network = [], build(name)
    way = trial_gradients(network)
    for trials, batch in ((1, 1), (2, 1), (1, 2), (3, 1), (4, 2), (9, 1)):
        asked.clear()
        found, derivatives = through(way, network, *samples(name, trials, batch))
        assert bool(asked) == (trials * batch <= few), (trials, batch)
        same, theirs = through(layered_gradients, network, *samples(name, trials, batch))
        for one, other in zip((*found, *derivatives), (*same, *theirs), strict=True):
            assert_close(one, other, **EXACT)


def test_products_of_a_description_are_those_of_the_layers():
    """Of strides, borders and windows that are no squares; counted by the shapes that torch returns."""
    network, counted, values = odd(), 0, torch.zeros(1, *CASES["odd"])
    for layer in network:
        values = layer(values)
        if isinstance(layer, nn.Conv2d | nn.Linear):
            counted += values.numel() * layer.weight[0].numel()
    assert Description.of(network, CASES["odd"], dropping=False).products == counted


def test_tensors_without_numbers_take_the_way_without_a_compiler():
    network = build("dlg-lenet", torch.float32)
    of_trials = trial_gradients(network)
    assert isinstance(of_trials, CompiledGradients)
    with FakeTensorMode(allow_non_fake_inputs=True):
        images = torch.zeros(3, 2, *CASES["dlg-lenet"], requires_grad=True)
        found = of_trials(network, images, torch.full((3, 2, CLASSES), 1 / CLASSES))
    assert [one.shape[0] for one in found] == [3] * len(list(network.parameters()))
