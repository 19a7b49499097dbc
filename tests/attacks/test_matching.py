"""The distances, their derivatives, and the identities F1 and F6."""

import pytest
import torch

from leaklab.attacks.matching.distances import DISTANCES, profiled_scale, squared_l2
from leaklab.attacks.matching.inversion import Inversion
from leaklab.records.streams import stream

TRIALS = 3


@pytest.fixture
def pair():
    draws = stream(1, "gradients")
    shapes = [(4, 2, 3), (4,)]
    first, second = ([draws.normal(TRIALS, *shape) for shape in shapes] for _ in range(2))
    return first, second


@pytest.fixture
def inversion(network_of, observe, digits):
    def make(distance, labels=None):
        images, truth = digits[0][:TRIALS, None], digits[1][:TRIALS, None]
        observed = list(observe(images, truth).update.values())
        network = network_of().requires_grad_(requires_grad=False)
        return Inversion(network, observed, (1, 1, 8, 8), 10, distance, truth if labels else None), images, truth

    return make


def test_squared_l2_is_the_plain_sum_of_squares(pair):
    expected = sum(((a - b) ** 2).flatten(1).sum(1) for a, b in zip(*pair, strict=True))
    assert torch.allclose(squared_l2(*pair)[0], expected)


def test_profiled_scale_is_the_minimum_over_the_scale(pair):
    value = profiled_scale(*pair)[0]
    grid = torch.linspace(-3, 3, 60_001, dtype=torch.float64)
    for trial in range(TRIALS):
        g, o = (torch.cat([tensor[trial].flatten() for tensor in tensors]) for tensors in pair)
        best = ((o[:, None] - grid * g[:, None]) ** 2).sum(0).min() / (o**2).sum()
        assert float(value[trial]) == pytest.approx(1e3 * float(best), rel=1e-6)


@pytest.mark.parametrize("distance", DISTANCES.values(), ids=DISTANCES)
def test_derivative_equals_autograd(pair, distance):
    gradients, observed = [g.requires_grad_() for g in pair[0]], pair[1]
    value, residuals, factor = distance(gradients, observed)
    for ours, theirs in zip(residuals, torch.autograd.grad(value.sum(), gradients), strict=True):
        assert torch.allclose(ours * factor.view(-1, *[1] * (ours.dim() - 1)), theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("distance", DISTANCES.values(), ids=DISTANCES)
def test_f1_loss_and_derivative_vanish_at_the_truth(inversion, distance):
    objective, images, _ = inversion(distance, labels=True)
    value, derivative = objective(images.flatten(1), torch.arange(TRIALS))
    assert value.abs().max() < 1e-10
    assert derivative.abs().max() < 1e-10


def test_f1_holds_for_soft_labels_too(inversion):
    objective, images, labels = inversion(squared_l2)
    logits = torch.full((TRIALS, 10), -50.0, dtype=torch.float64).scatter(1, labels, 50.0)
    value, derivative = objective(torch.cat([images.flatten(1), logits], 1), torch.arange(TRIALS))
    assert value.abs().max() < 1e-10
    assert derivative.abs().max() < 1e-10


def test_f6_profiled_loss_ignores_a_factor_on_the_observation(pair):
    reference = profiled_scale(*pair)[0]
    for factor in (0.01, 0.5, 3.5, 100.0):
        scaled = profiled_scale(pair[0], [factor * o for o in pair[1]])[0]
        assert torch.allclose(scaled, reference, rtol=0, atol=1e-9)
        assert not torch.allclose(squared_l2(pair[0], [factor * o for o in pair[1]])[0], squared_l2(*pair)[0])


@pytest.mark.parametrize("distance", DISTANCES.values(), ids=DISTANCES)
def test_the_objective_is_differentiated_correctly(inversion, distance):
    objective, _, _ = inversion(distance)
    points = stream(2, "points").normal(TRIALS, objective.unknowns)
    direction = stream(3, "direction").normal(TRIALS, objective.unknowns)
    rows, step = torch.arange(TRIALS), 1e-6
    numerical = (objective(points + step * direction, rows)[0] - objective(points - step * direction, rows)[0]) / (
        2 * step
    )
    assert torch.allclose((objective(points, rows)[1] * direction).sum(1), numerical, rtol=1e-5)


@pytest.mark.parametrize("distance", DISTANCES.values(), ids=DISTANCES)
def test_a_gradient_of_zero_has_a_finite_loss(inversion, distance):
    assert inversion(distance)[0].loss_of_nothing().isfinite().all()
