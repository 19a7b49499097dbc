"""Rates by least squares: the solver is exact, and so is the loss where the delta is linear in the rates."""

import pytest
import torch
from scipy.optimize import nnls
from torch import nn
from torch.nn import functional as F

from leaklab.attacks.matching.delta import DeltaMatching, Samples
from leaklab.attacks.matching.distances import profiled_scale, squared_norm
from leaklab.attacks.matching.profiled_rates import MOST_STEPS, ProfiledRates, best_shares
from leaklab.attacks.matching.steps import LocalSteps, simulated_delta
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

TRIALS, STEPS, CLASSES = 3, 4, 5
ROWS = torch.arange(TRIALS)


def client(mean, steps=STEPS, order=None, samples=1, bias=True):
    """A tiny network, images, and the loss for the delta that perturbed rates of this mean leave behind."""
    draws = stream(0, "client")
    layers = (nn.Flatten(), nn.Linear(16, 12), nn.Sigmoid(), nn.Linear(12, CLASSES))
    network = nn.Sequential(*(layers if bias else (nn.Flatten(), nn.Linear(16, CLASSES, bias=False)))).double().eval()
    for parameter in network.requires_grad_(requires_grad=False).parameters():
        parameter.copy_(draws.normal(*parameter.shape))
    images, labels = draws.uniform(TRIALS, samples, 1, 4, 4), draws.integers(0, CLASSES, TRIALS, samples)
    if order is not None:
        # every sample lights pixels of its own
        images = images * torch.eye(16)[:samples].view(samples, 1, 4, 4)
    rates, how = 2 * mean * draws.uniform(TRIALS, steps), LocalSteps(order=order)
    targets = F.one_hot(labels, CLASSES).double()
    delta = list(simulated_delta(network, images, targets, rates, how).values())
    kept = Samples((samples, 1, 4, 4), CLASSES, labels)
    means = torch.full((steps,), mean, dtype=torch.float64)
    return images.flatten(1), ProfiledRates(network, delta, kept, means, how), (network, delta, kept, means)


def test_the_best_shares_are_those_of_a_known_solver():
    draws = stream(1, "problems")
    directions, target = draws.normal(20, 9, STEPS), draws.normal(20, 9)
    found = best_shares(directions, target)
    for row in range(20):
        assert torch.allclose(
            found[row], torch.tensor(nnls(directions[row].numpy(), target[row].numpy())[0]), atol=1e-10
        )
    assert (found == 0).any()
    assert (found > 0).any()


def test_parallel_directions_do_no_harm():
    direction = stream(2, "direction").normal(2, 9, 1)
    shares = best_shares(direction.repeat(1, 1, 3), 2.5 * direction[..., 0])
    assert torch.allclose(shares.sum(1), torch.full((2,), 2.5, dtype=torch.float64))


def test_one_step_is_exact_under_any_rate():
    images, loss, _ = client(mean=5.0, steps=1)
    value, derivative = loss(images, ROWS)
    assert value.abs().max() < 1e-10
    assert derivative.abs().max() < 1e-10


def test_steps_whose_gradients_do_not_meet_are_exact_under_any_rates():
    images, loss, _ = client(mean=5.0, order=torch.arange(STEPS)[:, None], samples=STEPS, bias=False)
    value, derivative = loss(images, ROWS)
    assert value.abs().max() < 1e-10
    assert derivative.abs().max() < 1e-10


def test_the_linearised_model_holds_for_small_rates_and_beats_one_factor():
    """What is left at the truth falls with the rate, faster than what a single factor leaves."""
    left = {}
    for mean in (1e-2, 1e-3):
        images, loss, (network, delta, samples, means) = client(mean)
        gradients = [value / means.sum() for value in delta]
        one = DeltaMatching(network, delta, samples, means, profiled_scale)(images, ROWS)[0] / 1e3
        left[mean] = loss(images, ROWS)[0] / squared_norm(gradients)
        assert (left[mean] < 0.1 * one).all()
    assert (left[1e-3] < 2e-2 * left[1e-2]).all()


def test_derivatives_equal_finite_differences():
    _, loss, _ = client(mean=0.1)
    draws = stream(3, "points")
    points, along = draws.uniform(TRIALS, loss.unknowns), draws.normal(TRIALS, loss.unknowns)
    numerical = (loss(points + 1e-5 * along, ROWS)[0] - loss(points - 1e-5 * along, ROWS)[0]) / 2e-5
    assert torch.allclose((loss(points, ROWS)[1] * along).sum(1), numerical, rtol=1e-5)


def test_what_is_not_linear_is_refused():
    _, _, (network, delta, samples, means) = client(mean=0.1)
    for steps in (LocalSteps(momentum=0.5), LocalSteps(weight_decay=0.1)):
        with pytest.raises(UserError, match="plain steps"):
            ProfiledRates(network, delta, samples, means, steps)
    with pytest.raises(UserError, match=f"at most {MOST_STEPS}"):
        ProfiledRates(network, delta, samples, means.repeat(3))
