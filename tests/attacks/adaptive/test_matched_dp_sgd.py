"""DP-SGD seen by an attacker who knows its law: exact for one sample, refused for the mean of several."""

from math import sqrt

import pytest
import torch
from sklearn.datasets import load_digits

from leaklab.attacks.adaptive.noise import MatchedDpSgd, MatchedNoise
from leaklab.attacks.base import victim
from leaklab.attacks.matching.distances import is_log_likelihood, squared_norm
from leaklab.attacks.matching.inversion import Inversion
from leaklab.captures.capture import capture
from leaklab.data.dataset import Dataset
from leaklab.observations.requirements import check_transform
from leaklab.records.errors import UserError
from leaklab.specs.capture import CaptureSpec

TRIALS, SHAPE, BOUND, SIGMA = 3, (1, 8, 8), 0.04, 0.5


@pytest.fixture(scope="module")
def dataset():
    loaded = load_digits()
    images = torch.tensor(loaded.images * 255 / 16).round().to(torch.uint8)[:, None]
    labels, one = torch.tensor(loaded.target), torch.ones(1)
    return Dataset("digits", 10, images[:1000], labels[:1000], images[1000:], labels[1000:], 0 * one, one)


def captured(dataset, sigma=SIGMA, defense="dp-sgd", more=(), **changes):
    settings = {"bound": BOUND, "sigma": sigma, **dict(more)}
    fields = {
        "dataset": "digits", "images": {"count": TRIALS, "seed": 1}, "model": "dlg-lenet", "rate": 1.0,
        "defense": {"name": defense, "settings": settings},
    }  # fmt: skip
    return capture(CaptureSpec.model_validate(fields | changes), dataset)


def at_the_truth(observation, knowledge, truth, transform):
    network, distance = victim(observation, knowledge, "the test"), transform.informed(knowledge).distance
    inversion = Inversion(network, list(observation.update.values()), (1, *SHAPE), 10, distance, truth.labels)
    return inversion(truth.images.flatten(1), torch.arange(TRIALS))[0]


def test_one_sample_is_clipped_and_gets_the_noise_of_clipping_noise(dataset):
    ours, knowledge, _ = captured(dataset)
    same, _, _ = captured(dataset, defense="clipping-noise", sigma=SIGMA * BOUND)
    for name, value in ours.update.items():
        assert torch.allclose(value, same.update[name], rtol=0, atol=1e-14)
    assert MatchedDpSgd().informed(knowledge).sigma == SIGMA * BOUND


def test_the_loss_at_the_truth_is_half_the_number_of_entries(dataset):
    observation, knowledge, truth = captured(dataset)
    half = sum(value[0].numel() for value in observation.update.values()) / 2
    transform = MatchedDpSgd()
    assert (at_the_truth(observation, knowledge, truth, transform) - half).abs().max() < 4 * sqrt(half)
    assert is_log_likelihood(transform.informed(knowledge).distance)


def test_a_batch_is_the_mean_of_its_clipped_samples(dataset):
    batch, _, _ = captured(dataset, sigma=0.0, batch_size=3)
    alone, _, _ = captured(dataset, sigma=0.0)
    for name, value in batch.update.items():
        assert torch.allclose(value[0], alone.update[name].mean(0), rtol=0, atol=1e-14)
    norms = squared_norm(list(alone.update.values())).sqrt()
    assert torch.allclose(norms, torch.full_like(norms, BOUND))


def test_what_it_does_not_know_is_refused(dataset):
    _, knowledge, _ = captured(dataset, batch_size=3)
    with pytest.raises(UserError, match="knows the law of one clipped sample, not of the mean of 3"):
        MatchedDpSgd().informed(knowledge)
    with pytest.raises(UserError, match="batch_size"):
        check_transform("matched-dp-sgd", "dp-sgd", 3)
    with pytest.raises(UserError, match="does not fit defense 'clipping-noise'"):
        check_transform("matched-dp-sgd", "clipping-noise", 1)
    _, knowledge, _ = captured(dataset, sigma=0.0)
    with pytest.raises(UserError, match="'dp-sgd', which has no sigma"):
        MatchedDpSgd().informed(knowledge)
    _, knowledge, _ = captured(dataset)
    with pytest.raises(UserError, match=r"leave sigma of transform 'matched-dp-sgd' out or set it to 0\.02"):
        MatchedDpSgd(sigma=0.5).informed(knowledge)
    with pytest.raises(UserError, match="does not fit defense 'dp-sgd'"):
        check_transform(MatchedNoise.name, "dp-sgd", 1)
    with pytest.raises(UserError, match="batches of a capture have one size: set sampling: shuffled"):
        captured(dataset, more={"sampling": "poisson"})
