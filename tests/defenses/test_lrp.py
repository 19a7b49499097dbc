"""Learning rate perturbation: the law of the rate (F8) and what it depends on."""

from dataclasses import replace

import pytest
import torch
from scipy.stats import kstest, laplace, norm

from leaklab.defenses.base import Alone, ClientContext
from leaklab.defenses.lrp import SMALLEST, LearningRatePerturbation, UnboundedRate
from leaklab.records.streams import stream


def draw_many(defense, context, n):
    return torch.tensor([defense.local_rate(context) for _ in range(n)], dtype=torch.float64)


def test_rate_has_the_moments_of_the_uniform_law(context):
    rates = draw_many(LearningRatePerturbation(), context, n=100_000)
    mean = context.scaled_rate
    assert rates.min() >= 0
    assert 1.999 * mean < rates.max() < 2 * mean
    assert float(rates.mean()) == pytest.approx(mean, rel=1e-2)
    assert float(rates.var()) == pytest.approx(mean**2 / 3, rel=2e-2)
    assert float((rates**2).mean()) == pytest.approx(4 * mean**2 / 3, rel=2e-2)


@pytest.mark.parametrize(("law", "of_scipy"), [("gaussian", norm), ("laplace", laplace)])
def test_an_unbounded_rate_has_its_law_with_the_moments_of_the_uniform_one(context, law, of_scipy):
    rates = draw_many(UnboundedRate(law), context, n=20_000) / context.scaled_rate
    scale = 3**-0.5 if law == "gaussian" else 6**-0.5
    assert kstest(rates.numpy(), of_scipy(loc=1, scale=scale).cdf).pvalue > 0.01
    assert float(rates.var()) == pytest.approx(1 / 3, rel=5e-2)
    assert rates.min() < 0
    assert rates.max() > 2


def test_orthogonal_steps_turn_the_update_by_thirty_degrees(context):
    """F8: for many orthogonal gradients of equal length the cosine with the plain update tends to sqrt(3) / 2."""
    rates = draw_many(LearningRatePerturbation(), context, n=4000)
    cosine = rates.sum() / (len(rates) ** 0.5 * rates.norm())
    assert float(cosine) == pytest.approx(3**0.5 / 2, rel=1e-2)


def test_the_class_factor_moves_the_mean(context):
    ada = LearningRatePerturbation(class_slope=1 / 6)
    plain = LearningRatePerturbation().local_rate(replace(context, _streams={}))
    assert float(ada.local_rate(context) / plain) == pytest.approx(1 + 1.5 / 6)


def test_class_factors_average_to_their_offset():
    """Eq. (13): the mean over clients is beta exactly, whatever the slope."""
    counts = [1, 2, 4, 9]
    ada, plain = LearningRatePerturbation(class_slope=1 / 10, class_offset=0.9), LearningRatePerturbation()

    def rate(defense, client, count):
        return float(defense.local_rate(ClientContext(1.0, 0, client, num_classes=count, mean_num_classes=4.0)))

    factors = [rate(ada, client, count) / rate(plain, client, count) for client, count in enumerate(counts)]
    assert sum(factors) / 4 == pytest.approx(0.9)


def test_a_negative_class_factor_is_cut_and_reported(context):
    poor, steep = replace(context, num_classes=1), LearningRatePerturbation(class_slope=10.0)
    assert 0 <= steep.local_rate(poor) < 2 * SMALLEST * poor.scaled_rate
    assert steep.clipped(poor)
    assert not steep.clipped(context)
    assert not LearningRatePerturbation().clipped(poor)


@pytest.mark.parametrize("change", [{"seed": 2}, {"client": 4}, {"round": 8}, {"draw": 1}])
def test_draws_belong_to_seed_client_round_and_draw(context, change):
    defense = LearningRatePerturbation()
    again, other = replace(context, _streams={}), replace(context, _streams={}, **change)
    rates = draw_many(defense, context, 3)
    assert torch.equal(rates, draw_many(defense, again, 3))
    assert not torch.equal(rates, draw_many(defense, other, 3))
    assert len(set(rates.tolist())) == 3


def test_draws_go_on_from_step_to_step(context):
    """A fresh draw in every step, the same whether the context moved on or not."""
    defense = LearningRatePerturbation()
    moved = [defense.local_rate(context.at(Alone(step))) for step in range(3)]
    assert torch.equal(torch.tensor(moved, dtype=torch.float64), draw_many(defense, replace(context, _streams={}), 3))


def test_the_common_draw_scales_with_the_rate(context):
    """Settings of one seed share their uniform draws, so they differ by the mean only."""
    defense = LearningRatePerturbation()
    double = replace(context, scaled_rate=2 * context.scaled_rate, _streams={})
    assert float(defense.local_rate(double) / defense.local_rate(context)) == pytest.approx(2)


def test_no_draw_from_the_global_generator(context):
    before = torch.get_rng_state()
    draw_many(LearningRatePerturbation(), context, 5)
    assert torch.equal(before, torch.get_rng_state())


def test_the_draw_is_the_documented_stream(context):
    name = ("client", 3, "round", 7, "draw", 0, "defense", "rate")
    assert LearningRatePerturbation().local_rate(context) == 2 * 0.02 * stream(1, *name).uniform()
