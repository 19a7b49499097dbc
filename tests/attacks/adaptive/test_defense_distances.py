"""The distances of the transforms against noise, clipping, compression and Soteria: values and derivatives."""

from functools import partial

import pytest
import torch

from leaklab.attacks.adaptive.emulation import after_clipping, after_pruning, on_support
from leaklab.attacks.adaptive.noise import negative_log_likelihood
from leaklab.attacks.adaptive.soteria import on_seen_columns, without_head_weight
from leaklab.attacks.matching.distances import squared_l2
from leaklab.records.streams import stream

TRIALS, SIGMA, BOUND = 3, 0.3, 2.0
SHAPES = [(4, 2, 3), (4,), (5, 8), (5,)]
DISTANCES = {
    "support-only": on_support,
    "prune-emulation": after_pruning,
    "clip-emulation": after_clipping,
    "muted-layer": without_head_weight,
    "masked-columns": on_seen_columns,
    "matched-noise": partial(negative_log_likelihood, sigma=SIGMA),
    "matched-noise with clip": partial(negative_log_likelihood, sigma=SIGMA, bound=BOUND),
}


@pytest.fixture(params=DISTANCES)
def distance(request):
    return DISTANCES[request.param]


@pytest.fixture
def pair():
    """Gradients of which trial 0 is short, 1 long, 2 of normal size; observations with zeros, also whole columns."""
    draws = stream(1, "gradients")
    first, second = ([draws.normal(TRIALS, *shape) for shape in SHAPES] for _ in range(2))
    sizes = torch.tensor([0.05, 5.0, 1.0], dtype=torch.float64)
    first = [torch.einsum("t,t...->t...", sizes, value) for value in first]
    second = [torch.where(value.abs() < 0.3, 0.0, value) for value in second]
    second[-2][:, :, [1, 4]] = 0.0
    return first, second


def derivative(found):
    _, residuals, factor = found
    return [torch.einsum("t,t...->t...", factor, residual) for residual in residuals]


def flat(tensors, trial):
    return torch.cat([value[trial].flatten() for value in tensors])


def test_derivative_equals_autograd(distance, pair):
    gradients, observed = [g.requires_grad_() for g in pair[0]], pair[1]
    found = distance(gradients, observed)
    automatic = torch.autograd.grad(found[0].sum(), gradients, allow_unused=True, materialize_grads=True)
    for ours, theirs in zip(derivative(found), automatic, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-10, atol=1e-12)


def test_derivative_equals_differences(distance, pair):
    """Not through autograd, which would repeat a mistake in the value."""
    gradients, observed = pair
    direction, step = [stream(2, "direction", i).normal(*g.shape) for i, g in enumerate(gradients)], 1e-6
    ahead, behind = (
        distance([g + sign * step * d for g, d in zip(gradients, direction, strict=True)], observed)[0]
        for sign in (1, -1)
    )
    slopes = derivative(distance(gradients, observed))
    expected = sum((s * d).flatten(1).sum(1) for s, d in zip(slopes, direction, strict=True))
    assert torch.allclose((ahead - behind) / (2 * step), expected, rtol=1e-6)


def test_trials_are_independent(distance, pair):
    together = distance(*pair)
    for trial in range(TRIALS):
        alone = distance(*([value[trial : trial + 1] for value in part] for part in pair))
        assert torch.equal(alone[0][0], together[0][trial])
        for one, all_ in zip(derivative(alone), derivative(together), strict=True):
            assert torch.equal(one[0], all_[trial])


def test_nothing_is_changed_in_place(distance, pair):
    before = [[value.clone() for value in part] for part in pair]
    distance(*pair)
    assert all(torch.equal(a, b) for old, new in zip(before, pair, strict=True) for a, b in zip(old, new, strict=True))


def test_a_gradient_of_zero_has_a_finite_loss(distance, pair):
    """It is what the search compares its losses with."""
    found = distance([torch.zeros_like(value) for value in pair[0]], pair[1])
    assert (found[0] > 0).all()
    assert all(value.isfinite().all() for value in [found[0], *derivative(found)])


def test_an_observation_of_zero_has_a_finite_loss(distance, pair):
    found = distance(pair[0], [torch.zeros_like(value) for value in pair[1]])
    assert all(value.isfinite().all() for value in [found[0], *derivative(found)])


def test_support_is_where_the_observation_is_not_zero(pair):
    gradients, observed = pair
    for trial in range(TRIALS):
        g, o = flat(gradients, trial), flat(observed, trial)
        expected = ((g - o)[o != 0] ** 2).sum()
        assert float(on_support(gradients, observed)[0][trial]) == pytest.approx(float(expected), rel=1e-12)


def test_pruning_keeps_as_many_entries_as_were_observed(pair):
    gradients, observed = pair
    value = after_pruning(gradients, observed)[0]
    for trial in range(TRIALS):
        expected = 0.0
        for gradient, target in zip(gradients, observed, strict=True):
            g, o = gradient[trial].flatten(), target[trial].flatten()
            largest = g.abs().argsort(descending=True)[: int((o != 0).sum())]
            pruned = torch.zeros_like(g).index_copy(0, largest, g[largest])
            expected += float(((pruned - o) ** 2).sum())
        assert float(value[trial]) == pytest.approx(expected, rel=1e-12)


def test_a_tensor_observed_as_zero_is_pruned_as_a_whole(pair):
    gradients, observed = pair
    observed = [torch.zeros_like(observed[0]), *observed[1:]]
    moved = [gradients[0] + 7, *gradients[1:]]
    assert torch.equal(after_pruning(gradients, observed)[0], after_pruning(moved, observed)[0])


def test_clipping_compares_long_gradients_by_direction_and_short_ones_in_full(pair):
    gradients, observed = pair
    value = after_clipping(gradients, observed)[0]
    for trial, is_long in enumerate([False, True]):
        g, o = flat(gradients, trial), flat(observed, trial)
        assert bool(g.norm() > o.norm()) == is_long
        cosine = torch.cosine_similarity(g, o, 0)
        expected = 2 * o.norm() ** 2 * (1 - cosine) if is_long else ((g - o) ** 2).sum()
        assert float(value[trial]) == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("factor", [1.0, 1.5, 40.0])
def test_clipping_forgives_a_longer_gradient_of_the_same_direction(pair, factor):
    found = after_clipping([factor * value for value in pair[0]], pair[0])
    assert found[0].abs().max() < 1e-10
    assert max(float(value.abs().max()) for value in derivative(found)) < 1e-10
    assert squared_l2([0.5 * value for value in pair[0]], pair[0])[0].min() > 1e-3


def test_the_muted_layer_is_the_heads_weight(pair):
    gradients, observed = pair
    reference = without_head_weight(gradients, observed)
    for place in range(4):
        moved = [value + (index == place) for index, value in enumerate(gradients)]
        assert torch.equal(without_head_weight(moved, observed)[0], reference[0]) == (place == 2)
    rest = squared_l2([gradients[i] for i in (0, 1, 3)], [observed[i] for i in (0, 1, 3)])[0]
    assert torch.allclose(reference[0], rest, rtol=1e-12)
    assert not derivative(reference)[2].any()


def test_masked_columns_are_those_without_any_entry(pair):
    gradients, observed = pair
    reference = on_seen_columns(gradients, observed)[0]
    for column in range(8):
        moved = [value.clone() for value in gradients]
        moved[2][:, :, column] += 1
        assert torch.equal(on_seen_columns(moved, observed)[0], reference) == (column in (1, 4))
    seen = [0, 2, 3, 5, 6, 7]
    picked = [[*part[:2], part[2][:, :, seen], part[3]] for part in pair]
    assert torch.allclose(reference, squared_l2(*picked)[0], rtol=1e-12)


def test_likelihood_is_that_of_the_normal_law(pair):
    gradients, observed = pair
    zero = torch.zeros((), dtype=torch.float64)
    law = torch.distributions.Normal(zero, zero + SIGMA)
    value = negative_log_likelihood(gradients, observed, sigma=SIGMA)[0]
    for trial in range(TRIALS):
        residual = flat(observed, trial) - flat(gradients, trial)
        constant = law.log_prob(torch.zeros_like(residual)).sum()
        assert float(value[trial]) == pytest.approx(float(constant - law.log_prob(residual).sum()), rel=1e-10)


def test_with_a_normal_prior_of_weight_one_the_minimum_is_the_posterior_mean():
    """A linear gradient A x with x ~ N(0, tau^2): the posterior mean is known in closed form."""
    draws, tau = stream(3, "planted"), 0.7
    matrix, hidden = draws.normal(30, 6), tau * draws.normal(6)
    observed = matrix @ hidden + SIGMA * draws.normal(30)
    precision = matrix.T @ matrix / SIGMA**2 + torch.eye(6, dtype=torch.float64) / tau**2
    mean = torch.linalg.solve(precision, matrix.T @ observed / SIGMA**2)
    (slope,) = derivative(negative_log_likelihood([(matrix @ mean)[None]], [observed[None]], sigma=SIGMA))
    assert torch.allclose(matrix.T @ slope[0], -mean / tau**2, rtol=1e-9)
