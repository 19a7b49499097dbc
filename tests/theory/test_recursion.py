"""The proof's steps as ratios of left side to right, against the same written out for one step."""

from dataclasses import replace

import pytest
import torch

from leaklab.theory.convergence import Constants, noise_terms
from leaklab.theory.progress import (
    ceiling,
    drift_ratios,
    induction_ratios,
    iterated,
    progress_ratios,
    step_ratios,
)
from leaklab.theory.quadratics import Course

torch.set_num_threads(1)
GIVEN = Constants(
    smoothness=2.0,
    convexity=0.5,
    variances=(1.0, 2.0),
    gradient_square=3.0,
    heterogeneity=0.25,
    start_distance=5.0,
    participants=1,
    local_steps=3,
    perturbed=True,
)
OTHER = replace(GIVEN, convexity=0.4, gradient_square=7.0, heterogeneity=0.1)
RATES = torch.tensor([[0.1, 0.2], [0.05, 0.1]], dtype=torch.float64)


def column(*values):
    return torch.tensor(values, dtype=torch.float64)


COURSE = Course(
    distances=column([5.0, 4.0], [3.0, 2.0], [2.0, 1.5]),
    ahead=column([2.9, 1.9], [1.9, 1.4]),
    noises=column([0.3, 0.2], [0.1, 0.05]),
    drifts=column([0.0, 0.0], [0.4, 0.3]),
    gaps=column([1.0, 1.0], [1.0, 1.0]),
    squares=column([3.0, 2.0], [7.0, 1.0]),
)


def test_lemma_1():
    expected = [
        2.9 / ((1 - 0.05) * 5 + 0.3 + 6 * 2 * 0.01 * 0.25 + 0),
        1.4 / ((1 - 0.04) * 2 + 0.05 + 6 * 2 * 0.01 * 0.1 + 2 * 0.3),
    ]
    found = progress_ratios(COURSE, RATES, [GIVEN, OTHER])
    assert [float(found[0, 0]), float(found[1, 1])] == pytest.approx(expected, rel=1e-12)


def test_lemma_3():
    """Of E = 3 and rate 0.05 with G^2 = 3, and rate 0.1 with G^2 = 7."""
    found = drift_ratios(COURSE, RATES, [GIVEN, OTHER])
    assert found.tolist() == [[0, 0], pytest.approx([0.4 / (16 * 0.0025 * 4 * 3), 0.3 / (16 * 0.01 * 4 * 7)])]
    assert drift_ratios(COURSE, RATES, [GIVEN, OTHER], tighter=True)[1, 0] == pytest.approx(3 * float(found[1, 0]))


def test_one_step_and_its_noise():
    noises = column(30.0, 60.0)
    found = step_ratios(COURSE.distances, RATES, [GIVEN, OTHER], noises)
    expected = [3 / (0.95 * 5 + 0.01 * 30), 2 / ((1 - 0.08) * 4 + 0.04 * 60)]
    assert found[0].tolist() == pytest.approx(expected, rel=1e-12)
    assert found.shape == (2, 2)


def test_the_ceiling_and_the_induction():
    """Of gamma = 31 and beta = 2 / mu: v = max(4 B / mu^2, 32 Delta_1)."""
    noise = noise_terms(GIVEN)
    assert ceiling(GIVEN, noise) == pytest.approx(max(16 * noise, 160))
    assert ceiling(GIVEN, 1.0) == pytest.approx(160)
    found = induction_ratios(COURSE.distances, [GIVEN, OTHER], column(160.0, 200.0))
    assert found[:, 0].tolist() == pytest.approx([5 * 32 / 160, 3 * 33 / 160, 2 * 34 / 160])
    assert found[2, 1] == pytest.approx(1.5 * (OTHER.offset + 3) / 200)


def test_a_rate_that_falls_too_fast_leaves_the_start_alone_in_the_ceiling():
    """With beta mu at most 1 there is no first term."""
    assert ceiling(GIVEN, noise_terms(GIVEN), factor=0.5) == pytest.approx(160)


def test_the_recursion_with_equality_is_its_closed_form():
    """Without noise a product; at beta = 2 / mu, x_t = gamma + t: (x_1 - 2)(x_1 - 1) / ((x_t - 2)(x_t - 1)) Delta_1."""
    known = iterated(GIVEN, 0.0, 50)
    first, at = GIVEN.offset + 1, GIVEN.offset + torch.arange(1, 51, dtype=torch.float64)
    expected = 5 * (first - 2) * (first - 1) / ((at - 2) * (at - 1))
    torch.testing.assert_close(known[:, 0], expected)
    assert float(iterated(GIVEN, 10.0, 2)[1, 0]) == pytest.approx((1 - 2 / first) * 5 + (4 / first) ** 2 * 10)


def test_the_induction_is_nearly_attained_where_noise_is_all():
    """Delta_1 at its own part of v: the recursion never leaves the last hundredth."""
    noise = 10.0
    start = ceiling(GIVEN, noise) / (GIVEN.offset + 1)
    known = replace(GIVEN, start_distance=start)
    ratios = induction_ratios(iterated(known, noise, 20_000), [known], column(ceiling(known, noise)))
    assert float(ratios.min()) > 0.95
    assert float(ratios.max()) <= 1 + 1e-12


def test_a_rate_below_one_over_the_convexity_breaks_the_induction():
    ratios = induction_ratios(
        iterated(GIVEN, 0.0, 20_000, factor=0.5), [GIVEN], column(ceiling(GIVEN, 0.0, factor=0.5))
    )
    assert float(ratios[-1]) > 10
