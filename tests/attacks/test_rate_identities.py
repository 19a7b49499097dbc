"""F8: what a perturbed rate does to the direction of an update, and what it cannot do."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from leaklab.attacks.matching.steps import LocalSteps, simulated_delta
from leaklab.defenses.base import ClientContext, NoDefense
from leaklab.defenses.lrp import LearningRatePerturbation
from leaklab.federated.batches import Batch
from leaklab.federated.forms.network import trainable
from leaklab.federated.local import local_training

LIMIT = 3**0.5 / 2
TRIALS, BATCH, STEPS = 3, 4, 4


def drawn(steps, mean=1.0, client=0):
    """The rates of one LRP client, as the defense draws them: [1, steps]."""
    context, defense = ClientContext(mean, seed=0, client=client), LearningRatePerturbation()
    return torch.tensor([[defense.local_rate(context) for _ in range(steps)]], dtype=torch.float64)


def sine_squared(first, second):
    """1 - cos^2 of the angle between updates, [T], from the residual: exact near 0."""
    one, other = (torch.cat([value.flatten(1) for value in update.values()], 1) for update in (first, second))
    factor = (one * other).sum(1) / (other * other).sum(1)
    return ((one - factor[:, None] * other) ** 2).sum(1) / (one * one).sum(1)


@pytest.fixture(scope="module")
def sine(network_of, digits):
    """The angle that LRP puts between a client's update and its undefended one, for one batch in all steps."""

    def angle(rate):
        images, labels = (part[: TRIALS * BATCH].unflatten(0, (TRIALS, BATCH)) for part in digits)
        weights = {name: p.detach().expand(TRIALS, *p.shape) for name, p in network_of().named_parameters()}
        form, batches = trainable(network_of(), (1, 8, 8)), [Batch(images, labels, {})] * STEPS

        def delta(defense):
            contexts = [ClientContext(rate, seed=0, client=trial) for trial in range(TRIALS)]
            sent = local_training(form, weights, batches, contexts, defense).weights
            return {name: sent[name] - weights[name] for name in weights}

        return sine_squared(delta(LearningRatePerturbation()), delta(NoDefense()))

    return angle


def test_f8_with_one_batch_and_small_rates_lrp_keeps_the_direction(sine):
    assert ((1 - sine(1e-4)) ** 0.5 > 0.999).all()


def test_the_angle_is_of_the_order_of_the_drift(sine):
    """Its sine is proportional to the rate: what LRP adds to an unknown factor comes from the client's own drift."""
    ratio = sine(1e-5) / sine(1e-6)
    assert ((ratio > 90) & (ratio < 110)).all()


def orthogonal_client(rates):
    """The delta of a client whose gradients are orthogonal and of one length: each step sees a pixel of its own.

    Without bias, a step moves the column of its pixel only, and the logits of a sample depend on that column only.
    """
    steps = rates.shape[1]
    network = nn.Sequential(nn.Flatten(), nn.Linear(steps, 3, bias=False)).double().eval()
    network[1].weight.data.zero_()
    images = torch.eye(steps, dtype=torch.float64).view(1, steps, 1, 1, steps)
    targets = F.one_hot(torch.arange(steps) % 3, 3).double()[None]
    order = LocalSteps(order=torch.arange(steps)[:, None])
    return simulated_delta(network.requires_grad_(requires_grad=False), images, targets, rates, order)


def test_orthogonal_gradients_of_one_length_give_the_cosine_of_the_rates():
    rates = drawn(30, mean=0.5)
    found = sine_squared(orthogonal_client(rates), orthogonal_client(torch.full_like(rates, 0.5)))
    expected = rates.sum() ** 2 / (rates.numel() * (rates**2).sum())
    assert torch.allclose(1 - found, expected, rtol=0, atol=1e-10)
    assert found > 0.1


@pytest.mark.parametrize("client", [0, 1])
def test_f8_that_cosine_tends_to_half_the_root_of_three(client):
    rates = drawn(4000, mean=0.01, client=client)
    cosine = rates.sum() / (rates.numel() * (rates**2).sum()) ** 0.5
    assert float(cosine) == pytest.approx(LIMIT, abs=1e-2)


def test_f8_the_moments_behind_the_limit():
    rates = drawn(40_000, mean=0.01)
    assert float(rates.mean()) == pytest.approx(0.01, rel=1e-2)
    assert float(rates.var()) == pytest.approx(0.01**2 / 3, rel=3e-2)
    assert float((rates**2).mean()) == pytest.approx(4 * 0.01**2 / 3, rel=2e-2)
