"""The two schemes of federated averaging (F9)."""

import pytest
import torch

from leaklab.federated.aggregation import rate_factors, server_weights
from leaklab.records.streams import stream


def averaged(algorithm, sizes, gradients, rate=0.1):
    """Return the global update of one step, all clients taking part."""
    factors, shares = rate_factors(algorithm, sizes), server_weights(algorithm, sizes)
    return sum(-share * factor * rate * g for share, factor, g in zip(shares, factors, gradients, strict=True))


@pytest.fixture
def gradients():
    return stream(0, "gradients").normal(4, 20)


def test_schemes_agree_on_balanced_data(gradients):
    sizes = [7, 7, 7, 7]
    assert torch.allclose(
        averaged("scheme1", sizes, gradients), averaged("scheme2", sizes, gradients), rtol=0, atol=1e-10
    )


def test_one_full_step_agrees_even_on_unequal_data(gradients):
    """K = N and one step: both are the gradient of the global objective (eqs. (8), (9))."""
    sizes = [1, 2, 3, 10]
    first, second = averaged("scheme1", sizes, gradients), averaged("scheme2", sizes, gradients)
    assert torch.allclose(first, second, rtol=0, atol=1e-10)


def test_unequal_samples_of_clients_tell_the_schemes_apart():
    sizes = [1, 2, 3, 10]
    assert server_weights("scheme1", sizes[:2]) == [0.5, 0.5]
    assert server_weights("scheme2", sizes[:2]) == pytest.approx([1 / 3, 2 / 3])
    assert rate_factors("scheme1", sizes) == pytest.approx([0.25, 0.5, 0.75, 2.5])
    assert rate_factors("scheme2", sizes) == [1.0] * 4


@pytest.mark.parametrize("algorithm", ["scheme1", "scheme2"])
def test_weights_of_a_round_sum_to_one(algorithm):
    assert sum(server_weights(algorithm, [3, 5, 11])) == pytest.approx(1)


def test_lrp_leaves_the_expected_update_alone(gradients):
    """Rates U(0, 2 p_k N eta) have the mean update of scheme 1, within four standard errors (20 comparisons)."""
    sizes, n = [1, 2, 3, 10], 20_000
    means = 0.1 * torch.tensor(rate_factors("scheme1", sizes))
    draws = 2 * means * stream(0, "rates").uniform(n, 4)
    updates = -(draws @ gradients) / 4
    error = updates.mean(0) - averaged("scheme1", sizes, gradients)
    assert (error.abs() <= 4 * updates.std(0) / n**0.5).all()
    assert error.abs().max() > 0
