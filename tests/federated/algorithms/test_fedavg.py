"""The two schemes of federated averaging (F9)."""

import pytest
import torch

from leaklab.federated.algorithms.fedavg import FedAvg
from leaklab.records.errors import UserError
from leaklab.records.streams import stream


def averaged(algorithm, sizes, gradients, rate=0.1):
    """Return the global update of one step, all clients taking part."""
    factors, shares = algorithm.rate_factors(sizes), algorithm.shares(sizes)
    return sum(-share * factor * rate * g for share, factor, g in zip(shares, factors, gradients, strict=True))


ONE, TWO = FedAvg(scheme=1), FedAvg(scheme=2)


@pytest.fixture
def gradients():
    return stream(0, "gradients").normal(4, 20)


def test_schemes_agree_on_balanced_data(gradients):
    sizes = [7, 7, 7, 7]
    assert torch.allclose(averaged(ONE, sizes, gradients), averaged(TWO, sizes, gradients), rtol=0, atol=1e-10)


def test_one_full_step_agrees_even_on_unequal_data(gradients):
    """K = N and one step: both are the gradient of the global objective (eqs. (8), (9))."""
    sizes = [1, 2, 3, 10]
    first, second = averaged(ONE, sizes, gradients), averaged(TWO, sizes, gradients)
    assert torch.allclose(first, second, rtol=0, atol=1e-10)


def test_unequal_samples_of_clients_tell_the_schemes_apart():
    sizes = [1, 2, 3, 10]
    assert ONE.shares(sizes[:2]) == [0.5, 0.5]
    assert TWO.shares(sizes[:2]) == pytest.approx([1 / 3, 2 / 3])
    assert ONE.rate_factors(sizes) == pytest.approx([0.25, 0.5, 0.75, 2.5])
    assert TWO.rate_factors(sizes) == [1.0] * 4


@pytest.mark.parametrize("algorithm", [ONE, TWO])
def test_weights_of_a_round_sum_to_one(algorithm):
    assert sum(algorithm.shares([3, 5, 11])) == pytest.approx(1)


def test_lrp_leaves_the_expected_update_alone(gradients):
    """Rates U(0, 2 p_k N eta) have the mean update of scheme 1, within four standard errors (20 comparisons)."""
    sizes, n = [1, 2, 3, 10], 20_000
    means = 0.1 * torch.tensor(ONE.rate_factors(sizes))
    draws = 2 * means * stream(0, "rates").uniform(n, 4)
    updates = -(draws @ gradients) / 4
    error = updates.mean(0) - averaged(ONE, sizes, gradients)
    assert (error.abs() <= 4 * updates.std(0) / n**0.5).all()
    assert error.abs().max() > 0


def test_a_third_scheme_is_refused():
    with pytest.raises(UserError, match="scheme must be 1 or 2, not 3"):
        FedAvg(scheme=3)
