"""Lemma 1's two sides: the largest ratio over all points against a search, and softmax losses against autograd."""

import numpy as np
import pytest
import torch

from leaklab.theory.progress import progress_sides, softmax_progress, worst_progress
from leaklab.theory.shares import MeanRidge
from leaklab.theory.tasks import client, made_up, optimum

torch.set_num_threads(1)
CURVATURES, SHARES = np.array([1.0, 0.2, 0.6]), np.array([0.2, 0.5, 0.3])


def sides(weights, minima, rate, smoothness=1.0, convexity=0.2):
    """Lemma 1 in one dimension for h/2 (w - minimum)^2, written out client by client."""
    best = (SHARES * CURVATURES * minima).sum() / (SHARES * CURVATURES).sum()
    mean = (SHARES * weights).sum()
    step = rate * sum(p * h * (w - c) for p, h, w, c in zip(SHARES, CURVATURES, weights, minima, strict=True))
    gamma = sum(p * h / 2 * (best - c) ** 2 for p, h, c in zip(SHARES, CURVATURES, minima, strict=True))
    drift = sum(p * (mean - w) ** 2 for p, w in zip(SHARES, weights, strict=True))
    right = (1 - rate * convexity) * (mean - best) ** 2 + 6 * smoothness * rate**2 * gamma + 2 * drift
    return (mean - best - step) ** 2, right


def worst(rate, smoothness=1.0, convexity=0.2):
    curvatures, shares = torch.as_tensor(CURVATURES), torch.as_tensor(SHARES)
    return worst_progress(curvatures, shares, rate, smoothness, convexity)


@pytest.mark.parametrize("rate", [0.25, 0.9, 1.7])
def test_no_point_has_a_larger_ratio_and_some_come_near(rate):
    """Hill climbing from random points: never above, and within a thousandth."""
    draws = np.random.default_rng(0)
    best, point = 0.0, draws.normal(size=6)
    for turn in range(20_000):
        other = point + draws.normal(size=6) * 10 ** draws.uniform(-3, 0.5)
        left, right = sides(other[:3], other[3:], rate)
        if turn < 500:
            left_far, right_far = sides(*draws.normal(size=(2, 3)), rate)
            assert left_far <= worst(rate) * right_far * (1 + 1e-12)
        if left / right > best:
            best, point = left / right, other
    assert worst(rate) * 0.999 < best <= worst(rate) * (1 + 1e-12)


@pytest.mark.parametrize(("curvature", "rate"), [(1.0, 0.25), (0.3, 0.25), (1.0, 1.95)])
def test_of_one_client_it_is_the_closed_form(curvature, rate):
    one = torch.ones(1, dtype=torch.float64)
    expected = (1 - rate * curvature) ** 2 / (1 - rate * 0.1)
    assert worst_progress(curvature * one, one, rate, 1.0, 0.1) == pytest.approx(expected, rel=1e-12)


def test_under_the_assumptions_it_is_one_less_the_progress():
    """Attained where all are at one point and only the flattest curvature, mu, counts: here no client has only that."""
    flat = torch.full((3,), 0.2, dtype=torch.float64)
    assert worst_progress(flat, torch.as_tensor(SHARES), 0.25, 1.0, 0.2) == pytest.approx(1 - 0.25 * 0.2, rel=1e-12)
    assert worst(0.25) < 1 - 0.25 * 0.2


def test_the_sides_of_softmax_losses_are_those_of_autograd():
    problem = made_up(0, clients=3, samples=5, features=4, classes=3, ridge=0.2)
    shares = torch.tensor(SHARES)
    best, lowest = optimum(MeanRidge(**vars(problem), scales=3 * shares))
    own = sum(float(p) * optimum(client(problem, k))[1] for k, p in enumerate(shares))
    weights = torch.linspace(-1, 3, 2 * 3 * 4 * 3, dtype=torch.float64).view(2, 3, 4, 3)
    left, right = progress_sides(problem, shares, weights, best, 0.3, lowest - own)
    for point in range(2):
        slopes = []
        for k in range(3):
            at = weights[point, k].clone().requires_grad_()
            loss = torch.nn.functional.cross_entropy(problem.features[k] @ at, problem.labels[k])
            slopes.append(torch.autograd.grad(loss + 0.1 * (at**2).sum(), at)[0])
        mean = sum(float(p) * w for p, w in zip(shares, weights[point], strict=True))
        step = 0.3 * sum(float(p) * g for p, g in zip(shares, slopes, strict=True))
        drift = sum(float(p * ((w - mean) ** 2).sum()) for p, w in zip(shares, weights[point], strict=True))
        away = float(((mean - best) ** 2).sum())
        assert float(left[point]) == pytest.approx(float(((mean - best - step) ** 2).sum()), rel=1e-10)
        expected = (1 - 0.3 * 0.2) * away + 6 * problem.smoothness * 0.09 * (lowest - own) + 2 * drift
        assert float(right[point]) == pytest.approx(expected, rel=1e-10)


def test_softmax_losses_come_near_the_bound_and_not_above_it():
    ratio, least = softmax_progress(0, clients=4, points=400)
    assert 0.99 * least < ratio <= least < 1
