"""Several rounds of one client on one batch: the server keeps their mean, in which the noise shrinks."""

from math import sqrt

import pytest
import torch
from scipy import stats

from leaklab.attacks.adaptive.noise import MatchedNoise
from leaklab.attacks.matching.distances import clipped, squared_norm
from leaklab.captures.capture import capture
from leaklab.observations.threat_models import THREAT_MODELS
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.record import canonical_json
from leaklab.specs.capture import CaptureSpec
from leaklab.specs.text import TextCaptureSpec

ROUNDS, SIGMA, BOUND = 7, 0.05, 2.0
NOISE = {"name": "additive-noise", "sigma": SIGMA}
CLIPPED_NOISE = {"name": "clipping-noise", "sigma": SIGMA, "bound": BOUND}


@pytest.fixture(scope="module")
def seen(dataset):
    """Return observation, knowledge and truth of three clients with one digit each."""

    def make(rounds=ROUNDS, **changes):
        fields = {"dataset": "digits", "images": {"count": 3, "seed": 1}, "model": "dlg-lenet", "rate": 1.0}
        return capture(CaptureSpec.model_validate({**fields, "rounds": rounds, **changes}), dataset)

    return make


def entries(observation):
    """Return all updates as one matrix, [T, n]."""
    return torch.cat([value.flatten(1) for value in observation.update.values()], 1)


def test_without_randomness_the_mean_is_the_single_update(seen):
    one, many = seen(rounds=1), seen()
    assert torch.allclose(entries(many[0]), entries(one[0]), rtol=0, atol=1e-15)
    assert torch.equal(many[2].rates, one[2].rates)


@pytest.mark.parametrize("rounds", [1, 4, ROUNDS])
def test_the_noise_of_the_mean_falls_with_the_root_of_the_rounds(seen, rounds):
    """Its squares over sigma^2 / R sum to a chi-squared variable of as many degrees as there are entries."""
    noise = entries(seen(rounds, defense=NOISE)[0]) - entries(seen(rounds=1)[0])
    low, high = stats.chi2.interval(1 - 1e-6, noise.numel())
    assert low < float((noise**2).sum()) * rounds / SIGMA**2 < high
    # a mean of rounds that were alike would not be smaller
    assert abs(float(noise.mean())) < 5 * SIGMA / sqrt(rounds * noise.numel())


def test_every_round_draws_anew_and_the_first_is_that_of_a_single_round(seen):
    """The mean of two rounds less half the first is half the second, whose noise owes nothing to the first's."""
    truth, one, two = (entries(each[0]) for each in (seen(1), seen(1, defense=NOISE), seen(2, defense=NOISE)))
    first, second = one - truth, 2 * two - one - truth
    assert abs(float(torch.corrcoef(torch.stack([first.flatten(), second.flatten()]))[0, 1])) < 0.03
    assert float(second.std()) == pytest.approx(SIGMA, rel=0.03)


def test_a_hidden_factor_becomes_the_mean_of_the_rounds_factors(seen):
    observation, _, truth = seen(defense="lrp")
    exact = entries(seen(1)[0])
    assert torch.allclose(entries(observation), truth.rates[:, :1] * exact, rtol=0, atol=1e-12)
    assert not torch.isclose(truth.rates, seen(1, defense="lrp")[2].rates, rtol=1e-3).any()


@pytest.mark.parametrize("defense", [NOISE, CLIPPED_NOISE])
def test_the_likelihood_of_the_mean_counts_every_round(seen, defense):
    """It is R ||clip(g) - mean o||^2 / (2 sigma^2), value and derivative."""
    observation, knowledge, _ = seen(defense=defense)
    bound = defense.get("bound")
    transform = MatchedNoise(sigma=SIGMA / sqrt(ROUNDS), bound=bound)
    prepared, _ = transform.prepare(observation, knowledge)
    observed, gradients = list(prepared.update.values()), list(seen(1)[0].update.values())
    value, _, _ = transform.distance(gradients, observed)
    if bound is not None:
        gradients, _ = clipped(gradients, gradients[0].new_full((3,), bound))
    expected = ROUNDS * squared_norm([g - o for g, o in zip(gradients, observed, strict=True)]) / (2 * SIGMA**2)
    assert torch.allclose(value, expected)
    half = entries(prepared).shape[1] / 2
    assert (value - half).abs().max() < 5 * sqrt(half)


def test_matched_noise_refuses_the_noise_of_a_single_round(seen):
    observation, knowledge, _ = seen(defense=NOISE)
    with pytest.raises(UserError, match=rf"over 7 steps is not 0.05: .* set it to {SIGMA / sqrt(7)}"):
        plugins.load("attacks/adaptive", "matched-noise", {"sigma": SIGMA}).prepare(observation, knowledge)


def test_the_attacker_is_told_how_many_and_only_where_there_are_several(seen):
    for name in THREAT_MODELS:
        assert seen(threat_model=name, kind="delta")[1].facts["rounds"] == ROUNDS
    once = seen(1)[1]
    assert "rounds" not in once.facts
    assert once.rounds == 1


def test_captures_of_one_round_keep_their_ids():
    images = {"dataset": "digits", "images": {"count": 1}, "model": "dlg-lenet"}
    sentences = {"dataset": "cola", "sentences": {}, "model": "bert-classifier"}
    for kind, fields in ((CaptureSpec, images), (TextCaptureSpec, sentences)):
        one, many = (kind.model_validate(fields | {"rounds": rounds}) for rounds in (1, 2))
        assert canonical_json(one) == canonical_json(kind.model_validate(fields))
        assert '"rounds":2' in canonical_json(many)
