"""The stages of annealing: equal ratios, one unit for every distance, and likelihoods that are left as they are."""

import pytest
import torch

from leaklab.attacks.adaptive.emulation import after_clipping
from leaklab.attacks.latents.unrolled import Ladder
from leaklab.attacks.matching.distances import is_log_likelihood, profiled_scale, squared_l2
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

LADDER = Ladder(0.1, 1e-4, 4)
TRIALS = 3


def test_errors_fall_in_equal_ratios_from_the_coarsest_to_the_finest():
    assert LADDER.errors() == pytest.approx([0.1, 0.01, 0.001, 1e-4])
    assert Ladder(0.1, 1e-4, 1).errors() == [1e-4]


@pytest.mark.parametrize("distance", [squared_l2, profiled_scale, after_clipping])
@pytest.mark.parametrize("factor", [1.0, 10.0])
def test_a_residual_of_one_error_costs_a_half_whatever_is_matched_and_however_large(distance, factor):
    """A zero gradient is off by the whole norm, which is 1 / s errors: it costs 1 / (2 s^2)."""
    observed = [factor * stream(0, "o").normal(TRIALS, 5, 7), factor * stream(1, "o").normal(TRIALS, 4)]
    nothing = distance([torch.zeros_like(value) for value in observed], observed)[0]
    for error, weight in zip(LADDER.errors(), LADDER.weights(distance, nothing), strict=True):
        assert torch.allclose(weight * nothing, torch.full((TRIALS,), 1 / (2 * error**2)).double())


LIKELIHOODS = {
    "matched-noise": {"sigma": 0.1}, "matched-dp-sgd": {}, "matched-laplace": {}, "ranked-mixture": {},
    "sliced-mixture": {}, "learnt": {},
}  # fmt: skip
"""What a defense does by chance has a likelihood; its settings come with the facts where none stand here."""


@pytest.mark.parametrize("name", [name for name in plugins.available("attacks/adaptive") if name not in LIKELIHOODS])
def test_what_is_no_law_of_a_defense_has_no_likelihood(name):
    assert not is_log_likelihood(plugins.load("attacks/adaptive", name, {}).distance or squared_l2)


def test_a_law_of_a_defense_is_a_likelihood():
    assert is_log_likelihood(plugins.load("attacks/adaptive", "matched-noise", LIKELIHOODS["matched-noise"]).distance)


@pytest.mark.parametrize("bound", [None, 2.0])
def test_a_likelihood_weighs_one_in_one_stage(bound):
    distance = plugins.load("attacks/adaptive", "matched-noise", {"sigma": 0.1, "bound": bound}).distance
    (weight,) = LADDER.weights(distance, torch.tensor([3.0, 5.0]))
    assert weight.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("wrong", [(1e-4, 0.1, 3), (0.1, 0.0, 3), (0.1, 0.01, 0)])
def test_stages_that_do_not_narrow_are_refused(wrong):
    with pytest.raises(UserError, match="from coarsest down to finest"):
        Ladder(*wrong)
