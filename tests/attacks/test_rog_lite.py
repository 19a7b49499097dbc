"""ROG without its learned part: where the answer is a small image, and what its search differentiates."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from leaklab.attacks.base import Budget, Case, victim
from leaklab.attacks.matching.cosine import CosineInversion
from leaklab.attacks.rog_lite import LAST_RATE, CosineDecay, Enlarged, RogLite
from leaklab.observations.base import Knowledge
from leaklab.observations.requirements import needs
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

STREAMS = partial(stream, 0, "attack")
ROG = RogLite(factor=2, interpolation="bilinear")


@pytest.fixture
def small():
    """Images that are enlarged ones of 4x4: what ROG can say exactly."""
    drawn = 0.1 + 0.8 * stream(1, "small").uniform(3, 1, 4, 4)
    return F.interpolate(drawn, size=(8, 8), mode="bilinear", align_corners=False)[:, None]


@pytest.fixture
def labels():
    return torch.tensor([[3], [7], [0]])


@pytest.fixture
def granted(knowledge, labels):
    return Knowledge("test", {**knowledge.facts, "labels": labels.tolist()})


def test_an_image_of_low_resolution_is_found(small, labels, observe, granted):
    found = ROG.reconstruct(Case(observe(small, labels), granted, Budget(600, 1), STREAMS))
    errors = (found.images - small).square().flatten(1).mean(1)
    assert found.images.shape == small.shape
    assert (10 * torch.log10(1 / errors) > 30).all()


def test_what_is_found_is_an_enlarged_image_and_no_other(digits, observe, granted, labels):
    """A digit of 8x8 is none: ROG returns the best of those that it can say, for every start."""
    observation = observe(digits[0][:3, None], labels)
    found = ROG.reconstruct(Case(observation, granted, Budget(5, 2), STREAMS))
    assert found.candidates.shape == (3, 2, 1, 1, 8, 8)
    # of 16 numbers a trial: the rank of many such images is that of small ones
    images = Enlarged(inversion_of(observation, labels), 2, "bilinear").images(torch.eye(16).double())
    assert torch.linalg.matrix_rank(images.flatten(1)) == 16
    basis = torch.linalg.qr(images.flatten(1).T).Q
    flat = found.candidates.flatten(0, 2).flatten(1)
    assert_close(flat @ basis @ basis.T, flat, rtol=0, atol=1e-10)


def inversion_of(observation, labels):
    facts = {"input_shape": [1, 8, 8], "num_classes": 10}
    network = victim(observation, Knowledge("test", facts), "the test")
    return CosineInversion(network, list(observation.update.values()), (1, 1, 8, 8), 10, labels)


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_the_derivative_at_small_images_is_that_of_finite_differences(digits, observe, labels, interpolation):
    enlarged = Enlarged(inversion_of(observe(digits[0][:3, None], labels), labels), 3, interpolation)
    assert enlarged.shape == (1, 1, 3, 3)  # 8 / 3, rounded up
    points, rows = stream(2, "points").uniform(3, enlarged.unknowns), torch.arange(3)
    _, derivative = enlarged(points, rows)
    way = stream(2, "way").normal(3, enlarged.unknowns)
    step = 1e-5
    values = [enlarged(points + sign * step * way, rows)[0] for sign in (1, -1)]
    assert_close((derivative * way).sum(1), (values[0] - values[1]) / (2 * step), rtol=1e-5, atol=1e-9)


def test_the_rate_falls_along_a_cosine_to_a_tenth():
    rates = [CosineDecay(100, 1, 0.05).rate_at(step) for step in range(101)]
    assert rates[0] == 0.05
    assert rates[50] == pytest.approx(0.05 * (1 + LAST_RATE) / 2)
    assert rates[100] == pytest.approx(0.005)
    assert rates == sorted(rates, reverse=True)


def test_it_sees_through_a_factor_on_the_update(small, labels, observe, granted):
    budget = Budget(20, 1)
    plain, scaled = (
        ROG.reconstruct(Case(observe(small, labels, [factor] * 3), granted, budget, STREAMS)) for factor in (1, 0.2)
    )
    assert_close(plain.images, scaled.images, rtol=0, atol=1e-9)


def test_what_it_lacks_it_says_in_one_line(small, labels, observe, granted, knowledge):
    observation = observe(small, labels)
    with pytest.raises(UserError, match="images of 8x8 over 8 are single pixels: lower factor"):
        RogLite(factor=8).reconstruct(Case(observation, granted, Budget(1, 1), STREAMS))
    with pytest.raises(UserError, match="attack 'rog-lite' needs 'labels'"):
        ROG.reconstruct(Case(observation, knowledge, Budget(1, 1), STREAMS))
    with pytest.raises(UserError, match="'rog-lite' matches gradients"):
        ROG.reconstruct(Case(replace(observation, kind="delta"), granted, Budget(1, 1), STREAMS))
    assert "labels" in needs("rog-lite", {})
    assert "labels" not in needs("rog-lite", {"label_rule": "bias"})
