"""The likelihood of averaged Laplace noise: its density for any number of draws, and what it takes for noise."""

import pytest
import torch
from scipy import integrate, stats

from leaklab.attacks.adaptive.laws import LaplaceLaw, MatchedLaplace
from leaklab.observations.base import Knowledge
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

SCALE, EXACT = 0.3, 1e-9


def value(draws, gradient, observed, error=EXACT):
    return LaplaceLaw(SCALE, draws).widened(error, {})([gradient], [observed])[0]


@pytest.mark.parametrize("draws", [1, 2, 3, 10])
def test_it_is_the_density_of_the_mean_of_so_many_draws(draws):
    """By the characteristic function (1 + b^2 t^2)^-N of a sum of N draws, integrated numerically."""
    places = torch.tensor([0.0, 0.1, 0.4, 0.7]).double()
    ours = torch.stack([value(draws, torch.zeros(1, 1).double(), x.view(1, 1) + 1e-12)[0] for x in places])

    def density(x):
        scaled = draws * x / SCALE
        return integrate.quad(lambda t: (1 + t**2) ** -draws, 0, torch.inf, weight="cos", wvar=float(scaled))[0]

    if draws == 1:
        expected = (places / SCALE).tolist()
    else:
        at_zero = integrate.quad(lambda t: (1 + t**2) ** -draws, 0, torch.inf)[0]
        expected = [0.0, *(-float(torch.tensor(density(float(x)) / at_zero).log()) for x in places[1:])]
    assert ours.tolist() == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_at_the_truth_the_loss_of_one_draw_has_a_gamma_law_and_not_that_of_normal_noise():
    truth, entries = stream(0, "g").normal(300, 50), 50
    uniform = stream(0, "u").uniform(300, 50) - 0.5
    laplace = -SCALE * uniform.sign() * torch.log1p(-2 * uniform.abs())
    normal = SCALE * 2**0.5 * stream(0, "n").normal(300, 50)
    law = stats.gamma(entries).cdf
    assert stats.kstest(value(1, truth, truth + laplace).numpy(), law).pvalue > 0.01
    assert stats.kstest(value(1, truth, truth + normal).numpy(), law).pvalue < 1e-6


@pytest.mark.parametrize("draws", [1, 4])
def test_the_derivative_equals_differences_and_the_kink_is_rounded_off(draws):
    gradient, observed = (stream(1, name).normal(5, 20) for name in "go")
    observed[:, :5] = gradient[:, :5]
    way, step = stream(1, "way").normal(5, 20), 1e-6
    distance = LaplaceLaw(SCALE, draws).widened(0.01, {})
    ahead, behind = (distance([gradient + sign * step * way], [observed])[0] for sign in (1, -1))
    _, (slope,), _ = distance([gradient], [observed])
    assert torch.allclose((ahead - behind) / (2 * step), (slope * way).sum(1), rtol=1e-6)
    assert not slope[:, :5].any()


def test_it_reads_scale_and_number_of_draws_from_the_facts():
    facts = {"defense": {"name": "laplace-noise", "settings": {"variance": 0.02}}, "local_steps": 3, "rounds": 2}
    assert MatchedLaplace().informed(Knowledge("any", facts)).distance == LaplaceLaw(pytest.approx(0.1), 6)
    with pytest.raises(UserError, match="made for laplace-noise"):
        MatchedLaplace().informed(Knowledge("any", {**facts, "defense": {"name": "none", "settings": {}}}))


def test_steps_that_differ_are_held_against_their_mean():
    law, observed = LaplaceLaw(SCALE, 2), stream(2, "o").normal(3, 20)
    gradients = stream(2, "g").normal(3, 2, 20)
    ours = law.of_steps(0.1, {}, (0.5, 0.5))([gradients], [observed])[0]
    assert torch.allclose(ours, law.widened(0.1, {})([gradients.mean(1)], [observed])[0])
    assert torch.equal(law.moved(observed), observed)
    for shares in ((0.4, 0.6), (1.0,)):
        with pytest.raises(UserError, match="steps at one rate"):
            law.of_steps(0.1, {}, shares)
