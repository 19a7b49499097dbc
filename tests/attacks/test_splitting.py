"""Splitting: a turn's prior in closed form, what a denoiser adds to a Gaussian, and what cannot be split."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from leaklab.attacks.adaptive.noise import MatchedNoise
from leaklab.attacks.annealed import AnnealedLikelihood, AnnealedMap
from leaklab.attacks.base import Budget, Case
from leaklab.attacks.latents.posterior import latent_starts, posterior_of
from leaklab.attacks.latents.scene import scene_of
from leaklab.attacks.latents.splitting import Splitting, turned
from leaklab.attacks.matching.distances import squared_l2
from leaklab.models.generators.class_gaussian import ClassGaussian
from leaklab.models.generators.denoiser import Denoiser
from leaklab.models.generators.denoising import DenoiserTraining
from leaklab.observations.base import Knowledge
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

CLASSES, TRIALS, NOISE = 10, 8, 0.02
BEGUN = DenoiserTraining(steps=1, batch_size=2, rate=1e-12, average=0.0)
STREAMS = partial(stream, 0, "attack")


def two_shades(seed, count):
    """Return images of one shade or the other, with grain, and labels; every class has both."""
    labels, which = stream(seed, "class").integers(0, CLASSES, count), stream(seed, "shade").integers(0, 2, count)
    shades = torch.tensor([0.2, 0.8], dtype=torch.float64)[which]
    grain = 0.03 * stream(seed).normal(count, 1, 8, 8)
    return (shades[:, None, None, None] + grain).clamp(0, 1), labels


@pytest.fixture(scope="module")
def begun(digits):
    """A denoiser of digits that knows no more than their Gaussians."""
    images, labels = digits[0][:1000].float(), digits[1][:1000]
    return Denoiser(width=4).trained(images, labels, CLASSES, BEGUN, partial(stream, 0))


@pytest.fixture(scope="module")
def learnt():
    """A denoiser that has learnt that there are two shades."""
    images, labels = two_shades(1, 1200)
    schedule = DenoiserTraining(steps=150, batch_size=32, rate=5e-3, average=0.9)
    return Denoiser(width=8).trained(images.float(), labels, CLASSES, schedule, partial(stream, 0, "generator"))


@pytest.fixture(scope="module")
def seen(observe, knowledge):
    """Return observation and knowledge of shades under noise, and the images."""
    images, labels = two_shades(2, TRIALS)
    observation = observe(images[:, None], labels[:, None])
    noisy = {name: x + NOISE * stream(0, name).normal(*x.shape) for name, x in observation.update.items()}
    facts = Knowledge("any", {**knowledge.facts, "labels": labels[:, None].tolist()})
    return replace(observation, update=noisy), facts, images


def case(generator, seen, restarts=1, iterations=60):
    observation, knowledge, _ = seen
    distance = MatchedNoise(sigma=NOISE).distance
    return Case(observation, knowledge, Budget(iterations, restarts), STREAMS, distance, generator=generator)


def error(found, images):
    return ((found.images[:, 0].clamp(0, 1) - images) ** 2).flatten(1).mean(1)


def test_what_a_denoiser_learnt_reads_more_than_its_gaussian(learnt, seen):
    plain = AnnealedMap(label_rule="known").reconstruct(case(learnt, seen))
    split = AnnealedMap(label_rule="known", splits=3).reconstruct(case(learnt, seen))
    before, after = error(plain, seen[2]), error(split, seen[2])
    assert float(after.mean()) < 0.5 * float(before.mean())
    assert split.latents is None


def test_a_denoiser_that_learnt_nothing_splits_to_what_the_gaussian_reads(begun, digits, observe, knowledge):
    """An exact gradient of digits: the likelihood decides, whoever leads in between."""
    images, labels = digits[0][1000 : 1000 + TRIALS], digits[1][1000 : 1000 + TRIALS]
    observation = observe(images[:, None], labels[:, None])
    exact = Case(observation, knowledge, Budget(60, 1), STREAMS, None, generator=begun)
    plain, split = (AnnealedMap(stages=4, splits=n).reconstruct(exact) for n in (0, 3))
    assert float(error(plain, images).max()) < 1e-3
    assert float(error(split, images).max()) < 1e-3


def test_a_turn_at_endless_noise_is_the_gaussian_of_the_class(begun, digits, observe, knowledge):
    images, labels = digits[0][1000 : 1000 + TRIALS, None], digits[1][1000 : 1000 + TRIALS, None]
    scene = scene_of("the test", begun, observe(images, labels), knowledge, squared_l2)
    posterior, rows = posterior_of(scene, labels, 0.0), torch.arange(TRIALS)
    points = latent_starts(posterior, tuple(range(TRIALS)), 1, STREAMS, 0.3)
    points += stream(0, "points").normal(*points.shape)
    wide, begin = turned(posterior, points, rows, posterior, 1e6)
    assert not bool(begin.any())
    latents = stream(0, "latents").normal(*begin.shape)
    assert torch.allclose(wide.images(latents, rows), posterior.images(latents, rows), atol=1e-4)
    fine, _ = turned(posterior, points, rows, posterior, 1e-6)
    assert torch.allclose(fine.images(latents, rows), posterior.images(points, rows), atol=1e-4)


def test_levels_have_equal_ratios():
    assert Splitting(splits=3, split_coarsest=0.5, split_finest=0.2).levels() == pytest.approx([0.5, 0.1**0.5, 0.2])
    assert Splitting(splits=1, split_coarsest=0.1, split_finest=0.1).levels() == [0.1]
    assert Splitting().levels() == []


def test_levels_that_come_last_leave_the_stages_before_them_alone(begun, seen, monkeypatch):
    """Under a denoiser that gives back what it is given the stages are those of a search without one."""
    starts = []

    def noted(posterior, points, rows, likelihood, level):
        starts.append(points)
        return posterior, points

    monkeypatch.setattr("leaklab.attacks.latents.splitting.turned", noted)
    last = AnnealedMap(stages=3, label_rule="known", splits=1, split_turns=1, split_last=True)
    observation, knowledge, _ = seen
    exact = Case(observation, knowledge, Budget(10, 1), STREAMS, squared_l2, generator=begun)
    last.reconstruct(exact)
    plain = AnnealedMap(stages=3, label_rule="known").reconstruct(exact)
    assert torch.equal(starts[0].view_as(plain.latents), plain.latents)


@pytest.mark.parametrize("attack", [AnnealedMap, AnnealedLikelihood])
def test_what_cannot_be_split_is_one_line(begun, seen, digits, attack):
    gaussian = ClassGaussian().fitted(digits[0][:1000], digits[1][:1000], CLASSES)
    with pytest.raises(UserError, match="set generator model: denoiser"):
        AnnealedMap(label_rule="known", splits=2).reconstruct(case(gaussian, seen))
    with pytest.raises(UserError, match="set restarts: 1"):
        AnnealedMap(label_rule="known", splits=2).reconstruct(case(begun, seen, restarts=2))
    exact = replace(case(begun, seen), distance=squared_l2)
    with pytest.raises(UserError, match="6 stages and 2 levels of noise: give splits at least 5, or set split_last"):
        AnnealedMap(label_rule="known", splits=2).reconstruct(exact)
    with pytest.raises(UserError, match="split_finest"):
        attack(splits=2, split_coarsest=0.1, split_finest=0.2)
    with pytest.raises(UserError, match="refinements"):
        attack(splits=2, refinements=1)
