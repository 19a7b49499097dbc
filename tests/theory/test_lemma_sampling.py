"""Lemma 4: the formula against the mean over all subsets, and the drawn ratio near one."""

from itertools import combinations

import pytest
import torch

from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.theory.convergence_bound import LemmaSampling
from leaklab.theory.convergence_bound import sampling_formula as formula
from leaklab.theory.convergence_bound import squared_sampling_errors as squared_errors

torch.set_num_threads(1)
MODELS = stream(0, "models").normal(7, 3)


def plain(items, total, label):
    return items


@pytest.mark.parametrize("participants", [1, 3, 6, 7])
def test_the_formula_is_the_mean_over_all_subsets(participants):
    subsets = [list(chosen) for chosen in combinations(range(7), participants)]
    exact = sum(float((MODELS[chosen].mean(0) - MODELS.mean(0)).square().sum()) for chosen in subsets) / len(subsets)
    assert formula(MODELS, participants) == pytest.approx(exact, rel=1e-12, abs=1e-25)


def test_drawn_errors_agree_with_the_formula():
    errors = squared_errors(1, MODELS, 3, 20_000)
    assert abs(float(errors.mean()) - formula(MODELS, 3)) < 4 * float(errors.std()) / 20_000**0.5


def test_the_ratio_is_one_within_its_own_error():
    (ratio,) = LemmaSampling(draws=20_000).run(0, None, plain)
    assert ratio.metric == "lemma4_ratio"
    assert abs(ratio.value - 1) < 4 * ratio.std / ratio.n**0.5 < 0.05


def test_drawing_with_replacement_would_be_seen():
    """Its mean lacks the factor (N - K) / (N - 1), here 2/3."""
    chosen = stream(0, "with replacement").integers(0, 7, 20_000, 3)
    errors = (MODELS[chosen].mean(1) - MODELS.mean(0)).square().sum(-1)
    assert float(errors.mean()) / formula(MODELS, 3) == pytest.approx(6 / 4, rel=0.05)


@pytest.mark.parametrize("changes", [{"participants": 10}, {"participants": 0}, {"draws": 1}])
def test_settings_that_make_no_sense_are_refused(changes):
    with pytest.raises(UserError, match="lemma-sampling: needs"):
        LemmaSampling(**changes).run(0, None, plain)
