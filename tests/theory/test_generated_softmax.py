"""The task of HyperFL's theorem: gradients written out against autograd, sample by sample, and its curvature."""

import pytest
import torch
import torch.nn.functional as F

from leaklab.records.streams import stream
from leaklab.theory.tasks import GROUPS, Sizes, curvature, first_values, made_up, slopes, squared_norm

torch.set_num_threads(1)
SIZES = Sizes(features=4, classes=3, units=3, hidden=5, embedding=2)
REPEATS, CLIENTS, SAMPLES = 2, 3, 6


@pytest.fixture(scope="module")
def data():
    return made_up(0, CLIENTS, SAMPLES, SIZES.features, SIZES.classes, 0.0)


@pytest.fixture(scope="module")
def values():
    start = first_values(7, SIZES, REPEATS, CLIENTS)
    return {name: value + 0.3 * stream(1, name).normal(*value.shape) for name, value in start.items()}


def loss_of(own, features, labels):
    """One client's loss, as a plain network of modules' functions."""
    u = torch.tanh(F.linear(own["v"], own["w"], own["b"]))
    theta = (own["a"] * u).sum(-1) + own["c"]
    logits = F.linear(torch.tanh(F.linear(features, theta)), own["p"], own["q"])
    return F.cross_entropy(logits, labels.argmax(-1))


def alone(values, repeat, client):
    return {name: value[repeat, client].clone().requires_grad_() for name, value in values.items()}


def gradient_of(own, features, labels):
    found = torch.autograd.grad(loss_of(own, features, labels), list(own.values()))
    return dict(zip(own, found, strict=True))


def test_losses_and_gradients_are_those_of_autograd(values, data):
    found = slopes(values, data.features, data.labels)
    for repeat in range(REPEATS):
        for client in range(CLIENTS):
            own = alone(values, repeat, client)
            loss = loss_of(own, data.features[client], data.labels[client])
            torch.testing.assert_close(found.losses[repeat, client], loss.detach(), rtol=1e-13, atol=0)
            for name, value in gradient_of(own, data.features[client], data.labels[client]).items():
                torch.testing.assert_close(found.gradients[name][repeat, client], value, rtol=1e-12, atol=1e-15)


def test_squares_are_the_means_over_single_samples(values, data):
    found = slopes(values, data.features, data.labels)
    for client in range(CLIENTS):
        own = alone(values, 1, client)
        of_samples = [gradient_of(own, data.features[client, [s]], data.labels[client, [s]]) for s in range(SAMPLES)]
        for group, names in GROUPS.items():
            mean = sum(sum(float(one[name].square().sum()) for name in names) for one in of_samples) / SAMPLES
            assert float(found.squares[group][1, client]) == pytest.approx(mean, rel=1e-12)


def test_every_value_belongs_to_one_group():
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(SIZES.shapes)


def test_clients_begin_with_one_network_and_embeddings_of_their_own():
    start = first_values(7, SIZES, REPEATS, CLIENTS)
    assert {name: tuple(value.shape) for name, value in start.items()} == {
        name: (REPEATS, CLIENTS, *shape) for name, shape in SIZES.shapes.items()
    }
    for name, value in start.items():
        assert torch.equal(value[:, :1].expand_as(value), value) == (name != "v"), name
    assert not torch.equal(start["p"][0], start["p"][1])


def test_the_curvature_bounds_how_gradients_turn_and_is_met(values, data):
    """Along the steepest direction of the Hessian, found by finite differences of the gradient itself."""
    own = {name: value[0, :1] for name, value in values.items()}
    x, y = data.features[:1], data.labels[:1]
    flat = torch.cat([value.flatten() for value in own.values()])

    def gradient(point):
        parts = point.split([value.numel() for value in own.values()])
        at = {name: part.view(value.shape) for (name, value), part in zip(own.items(), parts, strict=True)}
        return torch.cat([slopes(at, x, y).gradients[name].flatten() for name in own])

    step = 1e-5
    directions = torch.eye(len(flat), dtype=torch.float64)
    rows = [(gradient(flat + step * d) - gradient(flat - step * d)) / (2 * step) for d in directions]
    largest = float(torch.linalg.eigvalsh(torch.stack(rows)).abs().max())
    assert curvature(own, x, y) == pytest.approx(largest, rel=1e-6)


def test_the_squared_norm_counts_every_value_once(values):
    total = sum(value.square().flatten(2).sum(-1) for value in values.values())
    torch.testing.assert_close(squared_norm(values, 2), total)
