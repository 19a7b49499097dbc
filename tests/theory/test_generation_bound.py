"""Closed forms of HyperFL's bound: its rate, its condition, its least value and where it leads."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from leaklab.theory.generated_descent import Constants

ONE = Constants(smoothness=2.5, gradient_square=1.7, gap=1.1, local_steps=1)
FIVE = replace(ONE, local_steps=5)


@pytest.mark.parametrize("its", [ONE, FIVE, replace(FIVE, drift=False)])
@pytest.mark.parametrize("steps", [10, 1000, 100_000])
def test_the_rate_is_the_one_that_the_bound_silently_needs(its, steps):
    """eta = sqrt(2 D / (L M G^2 T)) with the M that belongs to it."""
    m = its.factor(steps)
    wanted = sqrt(2 * its.gap / (its.smoothness * m * its.gradient_square * steps))
    assert its.rate(steps) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("its", [ONE, FIVE])
def test_the_condition_on_the_factor_is_met_with_equality(its):
    e, rates = its.local_steps, its.rates(50)
    left = rates["head"] ** 2 + rates["embedding"] ** 2 + (e - 1) * rates["hypernetwork"] ** 2
    left += (e - 1) / its.smoothness * rates["hypernetwork"]
    least = min(rates["head"], rates["hypernetwork"] / 2, rates["embedding"])
    assert left == pytest.approx(its.factor(50) * least**2, rel=1e-12)


@pytest.mark.parametrize("its", [ONE, FIVE])
def test_no_other_rate_has_a_smaller_value_with_this_factor(its):
    curved, g, d, t, m = its.smoothness, its.gradient_square, its.gap, 200, its.factor(200)
    values = [d / (t * eta) + curved * m * g * eta / 2 for eta in its.rate(t) * np.geomspace(0.1, 10, 201)]
    assert min(values) == pytest.approx(its.bound(t), rel=1e-12)
    assert int(np.argmin(values)) == 100
    assert its.bound(t) == pytest.approx(2 * sqrt(curved * m * g * d / (2 * t)), rel=1e-12)


def test_with_one_local_step_the_factor_is_two_and_the_bound_falls_like_one_over_the_root():
    assert [ONE.factor(steps) for steps in (10, 10**6)] == [2, 2]
    assert ONE.bound(400) == pytest.approx(ONE.bound(100) / 2, rel=1e-12)
    assert ONE.bound(100) == pytest.approx(2 * sqrt(2.5 * 1.7 * 1.1 / 100), rel=1e-12)


def test_without_the_drift_term_the_factor_is_a_constant():
    bare = replace(FIVE, drift=False)
    assert [bare.factor(steps) for steps in (10, 10**6)] == [18, 18]
    assert bare.bound(10) < FIVE.bound(10)


def test_with_several_local_steps_the_bound_does_not_fall_below_its_limit():
    limit = 2 * (FIVE.local_steps - 1) * FIVE.gradient_square
    bounds = [FIVE.bound(10**power) for power in range(1, 10)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] > limit
    assert bounds[-1] == pytest.approx(limit, rel=1e-6)
    assert limit > 3 * FIVE.gradient_square
    assert FIVE.rate(10**9) * 10**9 == pytest.approx(FIVE.gap / (4 * FIVE.gradient_square), rel=1e-6)
