"""Lemma 2: the formula against the exact expectation over all samples, and the drawn ratio near one."""

from itertools import product

import pytest
import torch

from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.theory.convergence_bound import RATE, LemmaVariance, formula, sample_gradients, squared_errors

torch.set_num_threads(1)
GRADIENTS = stream(0, "gradients").normal(2, 3, 4)


def exact(gradients):
    """The expectation over all pairs of samples; over the rates by E eta = r and E eta^2 = 4/3 r^2."""
    total = 0.0
    for first, second in product(range(3), repeat=2):
        a, b = gradients[0, first] / 2, gradients[1, second] / 2
        mean = gradients.mean(1).sum(0) / 2
        squares = 4 / 3 * float(a @ a + b @ b) + 2 * float(a @ b)
        total += squares - 2 * float((a + b) @ mean) + float(mean @ mean)
    return RATE**2 * total / 9


def test_the_formula_is_the_exact_expectation():
    assert formula(GRADIENTS) == pytest.approx(exact(GRADIENTS), rel=1e-12)


def test_drawn_errors_agree_with_the_formula():
    errors = squared_errors(5, GRADIENTS, 40_000)
    spread = float(errors.std()) / 200
    assert abs(float(errors.mean()) - formula(GRADIENTS)) < 4 * spread < 0.1 * formula(GRADIENTS)


def test_the_ratio_is_one_within_its_own_error():
    (ratio,) = LemmaVariance(draws=20_000).run(0, None, lambda items, total, label: items)
    assert ratio.metric == "lemma2_ratio"
    assert ratio.n == 20_000
    assert abs(ratio.value - 1) < 4 * ratio.std / 20_000**0.5 < 0.05


def test_another_share_than_one_third_would_be_seen(monkeypatch):
    monkeypatch.setattr("leaklab.theory.convergence_bound.VARIANCE", 1 / 2)
    (ratio,) = LemmaVariance(draws=20_000).run(0, None, lambda items, total, label: items)
    assert ratio.value < 0.95


def test_gradients_are_those_of_the_task():
    gradients = sample_gradients(0, 3, 4)
    assert gradients.shape == (3, 4, 50)
    assert len(gradients.flatten(0, 1).unique(dim=0)) == 12


def test_too_few_draws_are_refused():
    with pytest.raises(UserError, match="lemma-variance: needs"):
        LemmaVariance(draws=1).run(0, None, lambda items, total, label: items)
