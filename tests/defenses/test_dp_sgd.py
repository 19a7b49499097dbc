"""DP-SGD: noise of the printed deviation, the accountant's budget, and no promise without noise."""

import math

import pytest
import torch

from leaklab.defenses.base import Alone, ClientContext
from leaklab.defenses.dp_sgd import DpSgd, epsilon_spent
from leaklab.records import plugins
from leaklab.records.errors import UserError

ENTRIES = 200_000


def noise(sigma, bound, batch, steps=1):
    """Return what is added to a gradient of zeros in each step, [steps, ENTRIES]."""
    defense, context = DpSgd(bound=bound, sigma=sigma), ClientContext(1.0, seed=0, client=2)
    zero = {"w": torch.zeros(ENTRIES // 2, 2, dtype=torch.float64)}
    labels = torch.zeros(batch, dtype=torch.int64)
    moments = [Alone(step, batch={"labels": labels}) for step in range(steps)]
    return torch.stack([defense.gradient(zero, context.at(moment))["w"].flatten() for moment in moments])


@pytest.mark.parametrize(("sigma", "bound", "batch"), [(10.62, 0.04, 50), (10.62, 0.04, 1), (0.5, 2.0, 7)])
def test_noise_is_normal_with_sigma_times_bound_over_batch(sigma, bound, batch):
    drawn = noise(sigma, bound, batch)[0] / (sigma * bound / batch)
    assert abs(drawn.mean()) < 4 / math.sqrt(ENTRIES)
    assert abs(drawn.std() - 1) < 4 / math.sqrt(2 * ENTRIES)
    assert abs((drawn**4).mean() - 3) < 4 * math.sqrt(96 / ENTRIES)  # kurtosis of a normal law


def test_noise_is_new_in_every_step_and_for_every_coordinate():
    first, second = noise(1.0, 1.0, 1, steps=2)
    assert abs((first * second).mean()) < 4 / math.sqrt(ENTRIES)
    assert abs((first[:-1] * first[1:]).mean()) < 4 / math.sqrt(ENTRIES)


def test_without_noise_the_gradient_is_left_alone_and_no_budget_is_told(context):
    gradients = {"w": torch.ones(3)}
    assert DpSgd(sigma=0.0).gradient(gradients, context) is gradients
    assert DpSgd(sigma=0.0).spent(0.1, 10) is None
    assert DpSgd(bound=0.3).sample_bound(context) == 0.3


@pytest.mark.parametrize(("steps", "sigma"), [(200 * 60, 10.62), (20 * 60, 3.466796875), (600, 2.529296875)])
def test_the_spent_budget_is_that_for_which_the_noise_was_sought(steps, sigma):
    # found by Opacus' get_noise_multiplier for epsilon 4, which stops within 0.01 below it
    assert 3.99 < epsilon_spent(sigma, 50 / 600, steps, 1e-5) < 4


def test_a_full_batch_has_the_closed_form_of_renyi_divergence():
    # q = 1: epsilon_alpha = steps alpha / (2 sigma^2), converted as in proposition 12 of "Hypothesis Testing
    # Interpretations and Renyi Differential Privacy"
    sigma, steps, delta = 20.0, 30, 1e-5
    least = min(
        steps * a / (2 * sigma**2) + math.log((a - 1) / a) - (math.log(delta) + math.log(a)) / (a - 1)
        for a in [1 + k / 1000 for k in range(1, 100_000)]
    )
    assert epsilon_spent(sigma, 1.0, steps, delta) == pytest.approx(least, rel=1e-3)
    assert epsilon_spent(sigma, 1.0, steps, delta) >= least


def test_more_noise_smaller_batches_and_fewer_steps_spend_less():
    spent = epsilon_spent(5.0, 0.1, 1000, 1e-5)
    assert epsilon_spent(6.0, 0.1, 1000, 1e-5) < spent
    assert epsilon_spent(5.0, 0.05, 1000, 1e-5) < spent
    assert epsilon_spent(5.0, 0.1, 900, 1e-5) < spent
    assert epsilon_spent(5.0, 0.1, 0, 1e-5) == 0


def test_nonsense_is_refused_in_one_line(context):
    with pytest.raises(UserError, match="sigma 0 adds no noise and so keeps no epsilon: raise sigma"):
        DpSgd(sigma=0.0, epsilon=4.0)
    with pytest.raises(UserError, match="bound must be a number above 0"):
        DpSgd(bound=0.0)
    with pytest.raises(UserError, match="the noise depends on the size of a batch"):
        DpSgd().gradient({"w": torch.ones(1)}, context)
    with pytest.raises(UserError, match="sampling"):
        plugins.load("defenses", "dp-sgd", {"sampling": "random"})
