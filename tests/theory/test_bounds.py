"""The bound's three forms, against numbers worked out by hand and against plain federated averaging's own bound."""

from dataclasses import replace

import pytest

from leaklab.theory.convergence import Constants, corrected, printed, tight

# N = 4, L = 2, mu = 0.5 (kappa 4, gamma 31), sum of sigma_k^2 = 6, G^2 = 3, Gamma = 0.25, Delta_1 = 5, K = 2, E = 3
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
FORMS = [printed, corrected, tight]


def fedavg(constants, step):
    """The bound of FedAvg with fixed rates, all constants written out: 8 for the drift, 4 for the sampling."""
    n, k, steps = len(constants.variances), constants.participants, constants.local_steps
    kappa, mu = constants.smoothness / constants.convexity, constants.convexity
    gamma = max(8 * kappa, steps)
    b = sum(constants.variances) / n**2 + 6 * constants.smoothness * constants.heterogeneity
    b += 8 * (steps - 1) ** 2 * constants.gradient_square
    c = (n - k) / (n - 1) * 4 / k * steps**2 * constants.gradient_square
    return kappa / (gamma + step - 1) * (2 * (b + c) / mu + mu * gamma / 2 * constants.start_distance)


def test_corrected_by_hand():
    """B = (6 + 4 * 3/3) / 16 + 3 + 32 * 4 * 3 = 387.625; C = 2/3 * 8 * 9 * 3 = 144."""
    expected = 4 / (31 + 9) * (2 * (387.625 + 144) / 0.5 + 0.5 * 32 / 2 * 5)
    assert corrected(GIVEN, 9) == pytest.approx(expected, rel=1e-14)
    assert expected == pytest.approx(216.65)


def test_tight_by_hand():
    """B = 0.625 + 3 + 32/3 * 4 * 3 = 131.625; C = 2/3 * 8/3 * 9 * 3 = 48."""
    assert tight(GIVEN, 9) == pytest.approx(4 / 40 * (4 * (131.625 + 48) + 40), rel=1e-14)


def test_printed_by_hand():
    """The noise and the start are the same; one more step in the denominator."""
    assert printed(GIVEN, 9) == pytest.approx(4 / 41 * (4 * (387.625 + 144) + 40), rel=1e-14)


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_without_perturbation_the_bound_is_that_of_plain_averaging(step):
    fixed = replace(GIVEN, perturbed=False)
    assert corrected(fixed, step) == pytest.approx(fedavg(fixed, step), rel=1e-14)
    assert tight(fixed, step) == corrected(fixed, step)


def test_the_misprint_puts_the_printed_form_below_the_proved_one():
    assert all(printed(GIVEN, step) < corrected(GIVEN, step) for step in (1, 10, 10_000))
    assert printed(GIVEN, 10**7) == pytest.approx(corrected(GIVEN, 10**7), rel=1e-6)


@pytest.mark.parametrize("bound", FORMS)
def test_perturbation_makes_the_bound_larger_and_time_makes_it_small(bound):
    assert bound(GIVEN, 5) > bound(replace(GIVEN, perturbed=False), 5)
    assert bound(GIVEN, 20_000_000) == pytest.approx(bound(GIVEN, 10_000_000) / 2, rel=1e-5)


def test_one_step_and_everyone_taking_part_leave_only_the_law_itself():
    """E = 1 and K = N: no drift, no sampling; perturbation adds G^2 / 3 per client and nothing else."""
    simple = replace(GIVEN, participants=4, local_steps=1)
    added = corrected(simple, 1) - corrected(replace(simple, perturbed=False), 1)
    assert added == pytest.approx(4 / 32 * 2 / 0.5 * (4 * 3 / 3 / 16), rel=1e-12)
    assert tight(simple, 1) == corrected(simple, 1)


def test_the_rate_starts_at_a_quarter_of_the_inverse_smoothness_and_falls():
    assert GIVEN.rate(1) == pytest.approx(1 / (4 * GIVEN.smoothness))
    many = replace(GIVEN, local_steps=100)
    assert many.rate(1) == pytest.approx(2 / (0.5 * 100))
    assert all(c.rate(t) <= 2 * c.rate(t + c.local_steps) for c in (GIVEN, many) for t in (1, 2, 50))
