"""How well anybody can tell two images of an update apart: exact for normal noise, bounded where samples are drawn."""

from itertools import pairwise
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from leaklab.observations.update_bounds import best_guess, total_variation, variation_of_samples
from leaklab.records.errors import UserError


def between(one, other, ends):
    """Half the integral of the distance of two densities."""
    found, _ = integrate.quad(lambda x: abs(one(x) - other(x)), *ends, points=[0, 1], limit=500)
    return found / 2


@pytest.mark.parametrize("deviation", [0.2, 1.0, 10.62])
def test_one_release_is_the_integral_between_two_normal_laws(deviation):
    laws = (stats.norm(place, deviation).pdf for place in (0, 1))
    integral = between(*laws, (-12 * deviation, 1 + 12 * deviation))
    assert total_variation(1, deviation) == pytest.approx(integral, abs=1e-8)


def test_hyperfls_noise_leaves_seven_and_a_half_percent():
    assert variation_of_samples(10.62, 1) == pytest.approx(2 * stats.norm.cdf(1 / 10.62) - 1, abs=1e-12)
    assert variation_of_samples(10.62, 1) == pytest.approx(0.075, abs=5e-5)
    assert best_guess(variation_of_samples(10.62, 1)) == pytest.approx(0.5375, abs=5e-5)


def test_the_best_guess_of_two_is_right_as_often_as_the_likelier_law():
    """The likelihood ratio of two releases is drawn, and the guess is counted."""
    draws = np.random.default_rng(3).normal(size=(200_000, 2)) * 2.0
    right = np.mean(draws.sum(1) < 1.0)  # of secret 0; secret 1 is a mirror image
    assert right == pytest.approx(best_guess(total_variation(1, 2.0, releases=2)), abs=4 * 0.5 / 200_000**0.5)


@given(st.floats(0.01, 100), st.floats(0.01, 100), st.integers(1, 400))
def test_releases_compose_as_one_with_the_root_of_their_number(sensitivity, deviation, releases):
    together = total_variation(sensitivity, deviation, releases)
    assert together == pytest.approx(total_variation(releases**0.5 * sensitivity, deviation), abs=1e-12)
    assert 0 < together <= 1


def test_more_noise_hides_more_and_more_steps_or_samples_hide_less():
    for rate in (1.0, 0.1):
        by_noise = [variation_of_samples(sigma, 20, rate) for sigma in (0, 0.5, 2, 8, 32, 128)]
        by_steps = [variation_of_samples(20, steps, rate) for steps in (0, 1, 4, 16, 64, 256)]
        by_samples = [variation_of_samples(20, 4, rate, samples) for samples in (0, 1, 2, 4)]
        assert by_noise[0] == 1
        assert by_steps[0] == by_samples[0] == 0
        assert all(one >= other for one, other in pairwise(by_noise))
        assert all(one < other for one, other in pairwise(by_steps))
        assert all(one < other for one, other in pairwise(by_samples))
    by_rate = [variation_of_samples(20, 16, rate) for rate in (0.001, 0.01, 0.1, 0.3, 1.0)]
    assert all(one < other for one, other in pairwise(by_rate))


@pytest.mark.parametrize("sigma", [0.5, 1.0, 4.0, 10.62])
@pytest.mark.parametrize("rate", [0.001, 0.08, 0.5, 0.999])
def test_one_step_of_drawn_samples_is_the_integral_between_its_two_mixtures(sigma, rate):
    """Replaced: the sample is in the step with one probability, and then at one or the other end."""
    left, right = (
        lambda x, place=place: (1 - rate) * stats.norm.pdf(x, 0, sigma) + rate * stats.norm.pdf(x, place, sigma)
        for place in (-1, 1)
    )
    exact = between(left, right, (-2 - 12 * sigma, 2 + 12 * sigma))
    assert exact == pytest.approx(rate * total_variation(2, sigma), abs=1e-6)
    assert variation_of_samples(sigma, 1, rate) == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize("rate", [0.05, 0.3])
def test_the_accountant_bounds_many_steps_better_than_their_sum_and_not_below_the_normal_limit(rate):
    """Many steps of little noise each are about normal, with mu = q sqrt(k (exp(1 / sigma^2) - 1)) for an added one."""
    sigma, steps = 10.62, 2000
    limit = total_variation(rate * np.sqrt(steps * np.expm1(1 / sigma**2)), 1)
    bound = variation_of_samples(sigma, steps, rate)
    assert bound < min(1, steps * rate * total_variation(2, sigma))
    assert limit <= bound <= min(1, 3 * limit)


def test_sampled_steps_stay_above_what_a_simulated_attacker_gets():
    """Two steps with drawn batches: the total variation on a fine grid, by the law of the pair."""
    sigma, rate, x = 2.0, 0.3, np.linspace(-14, 14, 1401)
    one, other = (
        (1 - rate) * stats.norm.pdf(x, 0, sigma) + rate * stats.norm.pdf(x, place, sigma) for place in (-1, 1)
    )
    exact = np.abs(np.outer(one, one) - np.outer(other, other)).sum() * (x[1] - x[0]) ** 2 / 2
    assert exact <= variation_of_samples(sigma, 2, rate) <= 3 * exact


def test_without_noise_or_without_a_bound_everything_may_be_told_apart():
    assert total_variation(1, 0) == total_variation(inf, 3.0) == total_variation(inf, 0) == 1
    assert total_variation(0, 0) == total_variation(0, 1) == total_variation(1, 1, releases=0) == 0
    assert total_variation(1e-300, 1e300) == 0
    assert total_variation(1e300, 1e-300) == 1
    assert variation_of_samples(0, 1, 0.01) == 1


@pytest.mark.parametrize(
    "ask",
    [
        lambda: total_variation(-1, 1),
        lambda: total_variation(1, -1),
        lambda: total_variation(1, nan),
        lambda: total_variation(1, inf),
        lambda: total_variation(1, 1, releases=-1),
        lambda: variation_of_samples(-0.1, 1),
        lambda: variation_of_samples(1, 1, rate=0),
        lambda: variation_of_samples(1, 1, rate=1.1),
        lambda: variation_of_samples(1, 1, samples=-1),
    ],
)
def test_numbers_that_say_nothing_are_refused_in_one_line(ask):
    with pytest.raises(UserError, match=r"^total variation: \w+ \S+ (says nothing|is no probability): give [^\n]+$"):
        ask()
