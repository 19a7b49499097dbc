"""Clients with unequal shares: their scaled losses against the definition, the bounds against numbers by hand."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from leaklab.theory.convergence import Constants, corrected, noise_terms, printed, tight
from leaklab.theory.shares import (
    BOUNDS,
    MeanRidge,
    ScaledRidge,
    drawn_shares,
    extremes,
    geometric_shares,
    needed,
    own,
    replaced,
)
from leaklab.theory.tasks import made_up, optimum, pooled

torch.set_num_threads(1)
SHARES = (0.1, 0.2, 0.3, 0.4)
EQUAL = (0.25,) * 4
# N = 4, nu = 1.6, varsigma = 0.4; L~ = 3.2, mu~ = 0.2, so kappa~ = 16 and gamma~ = 127
GIVEN = Constants(
    smoothness=2.0,
    convexity=0.5,
    variances=(1.0, 1.0, 2.0, 2.0),
    gradient_square=3.0,
    heterogeneity=0.25,
    start_distance=5.0,
    participants=2,
    local_steps=3,
    perturbed=True,
)
PROBLEM = made_up(0, clients=4, samples=5, features=3, classes=3, ridge=0.2)
SCALES = 4 * torch.tensor(SHARES, dtype=torch.float64)
SCALED = ScaledRidge(**vars(PROBLEM), scales=SCALES)


def test_geometric_shares_have_the_ratio_and_sum_to_one():
    shares = geometric_shares(5, 16.0)
    assert sum(shares) == pytest.approx(1)
    assert shares[-1] / shares[0] == pytest.approx(16)
    assert [b / a for a, b in pairwise(shares)] == pytest.approx([2] * 4)
    assert geometric_shares(1, 3.0) == (1.0,)


def test_drawn_shares_are_many_and_none_is_below_its_floor():
    shares = drawn_shares(0, 200, 6)
    assert shares.shape == (200, 6)
    torch.testing.assert_close(shares.sum(-1), torch.ones(200, dtype=torch.float64))
    assert float(shares.min()) >= 0.1 / 6
    largest = 6 * shares.amax(-1)
    assert float(largest.min()) < 1.6 < 4 < float(largest.max())


def test_extremes_are_nu_and_varsigma():
    assert extremes(SHARES) == pytest.approx((1.6, 0.4))
    assert extremes(EQUAL) == (1, 1)


def test_constants_as_the_paper_replaces_them():
    """Root of nu for sigma_k and G: nu for their squares."""
    known = replaced(GIVEN, SHARES)
    assert (known.smoothness, known.convexity, known.gradient_square) == pytest.approx((3.2, 0.2, 4.8))
    assert known.variances == pytest.approx((1.6, 1.6, 3.2, 3.2))
    assert (known.heterogeneity, known.start_distance) == (0.25, 5.0)


def test_constants_that_hold_for_every_client():
    known = needed(GIVEN, SHARES)
    assert known.gradient_square == pytest.approx(1.6**2 * 3)
    assert known.variances == pytest.approx([1.6**2 * v for v in (1, 1, 2, 2)])


def test_constants_of_each_client_and_in_the_mean():
    """(N p_k)^2 sigma_k^2, and G^2 times the mean of (N p_k)^2, here 4 * 0.3 = 1.2."""
    known = own(GIVEN, SHARES)
    assert known.variances == pytest.approx((0.16, 0.64, 2.88, 5.12))
    assert known.gradient_square == pytest.approx(1.2 * 3)


def test_the_bounds_by_hand():
    """B + C of the three: 6 L~ Gamma = 4.8 in all; the tight one ends with L in place of L~, which is 1 / nu."""
    start = 0.2 * 128 / 2 * 5
    # variances, spread G^2 / 3, drift, sampling
    root = (9.6 + 4 * 1.6) / 16 + 4.8 + 32 * 4 * 4.8 + 2 / 3 * 8 * 9 * 4.8
    whole = (1.6**2 * 6 + 4 * 2.56) / 16 + 4.8 + (32 * 4 + 2 / 3 * 8 * 9) * 7.68
    each = (8.8 + 4 * 1.2) / 16 + 4.8 + (32 / 3 * 4 + 2 / 3 * 8 / 3 * 9) * 3.6
    assert BOUNDS["bound_printed"](GIVEN, SHARES, 9) == pytest.approx(16 / 137 * (10 * root + start), rel=1e-12)
    assert BOUNDS["bound_corrected"](GIVEN, SHARES, 9) == pytest.approx(16 / 136 * (10 * whole + start), rel=1e-12)
    assert BOUNDS["bound_tight"](GIVEN, SHARES, 9) == pytest.approx(10 / 136 * (10 * each + start), rel=1e-12)


@pytest.mark.parametrize("step", [1, 30, 1000])
def test_with_equal_shares_the_bounds_are_those_of_balanced_clients(step):
    for name, balanced in {"printed": printed, "corrected": corrected, "tight": tight}.items():
        assert BOUNDS[f"bound_{name}"](GIVEN, EQUAL, step) == pytest.approx(balanced(GIVEN, step), rel=1e-14)


@pytest.mark.parametrize("shares", [SHARES, geometric_shares(4, 100.0), geometric_shares(4, 1.5)])
def test_the_root_is_made_good_by_the_smoothness_that_counts_nu_twice(shares):
    """L = sum p_k L_k is L-smooth, so the proof may end with L; with it, nu^2 comes to no more than nu with L~."""
    whole = corrected(needed(GIVEN, shares), 7) / extremes(shares)[0]
    assert BOUNDS["bound_tight"](GIVEN, shares, 7) < whole < corrected(replaced(GIVEN, shares), 7)


def test_noise_terms_by_hand():
    """B + C of the balanced theorem: see test_bounds."""
    assert noise_terms(GIVEN) == pytest.approx(387.625 + 144)
    assert noise_terms(GIVEN, tighter=True) == pytest.approx(131.625 + 48)
    assert noise_terms(replace(GIVEN, perturbed=False)) == pytest.approx(6 / 16 + 3 + 8 * 4 * 3 + 36)


def autograd(weights, place, sample=None):
    """Return the gradient of N p_k L_k of one client, or of one of its samples."""
    point = weights.clone().requires_grad_()
    chosen = slice(None) if sample is None else [sample]
    logits = PROBLEM.features[place, chosen] @ point
    entropy = torch.nn.functional.cross_entropy(logits, PROBLEM.labels[place, chosen])
    return torch.autograd.grad(SCALES[place] * (entropy + 0.1 * (point**2).sum()), point)[0]


def test_scaled_gradients_are_those_of_the_scaled_losses():
    weights = torch.linspace(-1, 2, 2 * 4 * 9, dtype=torch.float64).view(2, 4, 3, 3)
    logits = SCALED.features @ weights
    residuals = SCALED.residuals(logits)
    whole = torch.stack([torch.stack([autograd(weights[r, k], k) for k in range(4)]) for r in range(2)])
    torch.testing.assert_close(SCALED.mean_gradients(residuals, weights), whole)
    each = [[[autograd(weights[r, k], k, s) for s in range(5)] for k in range(4)] for r in range(2)]
    chosen = torch.tensor([[0, 4, 2, 1], [3, 3, 0, 2]])
    expected = torch.stack([torch.stack([each[r][k][int(chosen[r, k])] for k in range(4)]) for r in range(2)])
    torch.testing.assert_close(SCALED.sample_gradients(residuals, weights, chosen), expected)
    squares = torch.tensor([[sum(float((g**2).sum()) for g in each[r][k]) / 5 for k in range(4)] for r in range(2)])
    torch.testing.assert_close(SCALED.gradient_squares(logits, residuals, weights), squares.double())


def test_the_mean_of_the_scaled_losses_is_the_weighted_one():
    weights = torch.linspace(-1, 2, 9, dtype=torch.float64).view(1, 3, 3)
    assert float(SCALED.losses(weights).mean()) == pytest.approx(
        float((PROBLEM.losses(weights) * torch.tensor(SHARES)).sum()), rel=1e-7
    )


def test_the_optimum_is_that_of_the_weighted_loss():
    best, lowest = optimum(MeanRidge(**vars(SCALED)))
    slope = sum(autograd(best, place) for place in range(4)) / 4
    assert float(slope.norm()) < 1e-6
    assert lowest == pytest.approx(float(SCALED.losses(best[None]).mean()), rel=1e-12)
    equal = MeanRidge(**vars(PROBLEM), scales=torch.ones(4, dtype=torch.float64))
    torch.testing.assert_close(optimum(equal)[0], optimum(pooled(PROBLEM))[0], atol=1e-6, rtol=1e-6)
