"""The prior of the nearest public images: the right images, their Gaussian, and what a search under it finds."""

from functools import partial

import pytest
import torch

from leaklab.attacks.adaptive.noise import MatchedNoise
from leaklab.attacks.annealed import AnnealedMap
from leaklab.attacks.base import Budget, Case
from leaklab.attacks.latents.posterior import FLOOR, near_posterior, nearest, posterior_of
from leaklab.attacks.latents.scene import scene_of
from leaklab.attacks.matching.distances import squared_l2
from leaklab.models.generators.base import load_generator, save_generator
from leaklab.models.generators.class_gaussian import ClassGaussian
from leaklab.observations.base import Knowledge
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

PUBLIC, CLASSES, NEIGHBOURS, KEPT = 1000, 10, 30, 60


@pytest.fixture(scope="module")
def generator(digits):
    return ClassGaussian(kept=KEPT).fitted(digits[0][:PUBLIC], digits[1][:PUBLIC], CLASSES)


@pytest.fixture(scope="module")
def seen(digits, observe, knowledge):
    """Return observation, knowledge and images [T, 1, ...] of three digits, with noise on every entry."""
    images, labels = digits[0][PUBLIC : PUBLIC + 3, None], digits[1][PUBLIC : PUBLIC + 3, None]
    observation = observe(images, labels)
    for name, value in observation.update.items():
        value += 0.05 * stream(0, name).normal(*value.shape)
    return observation, Knowledge("any", {**knowledge.facts, "labels": labels.tolist()}), images, labels


def test_the_nearest_are_those_that_sorting_finds():
    public, image = stream(0, "public").uniform(50, 7), stream(0, "image").uniform(7)
    order = sorted(range(50), key=lambda row: float((public[row] - image).norm()))
    assert torch.equal(nearest(public, image, 5), public[order[:5]])


def test_the_prior_of_an_image_is_the_gaussian_of_its_neighbours(generator, digits, seen):
    """Latents of no length give their mean, and the factor's square is their covariance with the floor added."""
    observation, knowledge, images, labels = seen
    scene = scene_of("the test", generator, observation, knowledge, squared_l2)
    guess = images.flip(0)
    near = near_posterior(posterior_of(scene, labels, 0.0), guess, labels, NEIGHBOURS)
    rows, zero = torch.arange(3), torch.zeros(3, near.unknowns).double()
    for row, label in enumerate(labels[:, 0].tolist()):
        public = digits[0][:PUBLIC][digits[1][:PUBLIC] == label][:KEPT].flatten(1)
        public = (255 * public).round() / 255
        order = ((public - guess[row].flatten()) ** 2).sum(1).argsort()[:NEIGHBOURS]
        mean, covariance = public[order].mean(0), torch.cov(public[order].T)
        assert torch.allclose(near.images(zero, rows)[row].flatten(), mean, atol=1e-6)
        factor = near.scene.generator.factor[row]
        values, vectors = torch.linalg.eigh(covariance)
        kept = vectors[:, 1 - NEIGHBOURS :]
        expected = kept @ torch.diag(values[1 - NEIGHBOURS :] + FLOOR**2) @ kept.T
        assert torch.allclose(factor @ factor.T, expected, atol=1e-6)
    assert near.inversion.labels is labels


def run(generator, seen, restarts=1, **settings):
    observation, knowledge, _, _ = seen
    attack = AnnealedMap(neighbours=NEIGHBOURS, **settings)
    streams, distance = partial(stream, 0, "attack"), MatchedNoise(sigma=0.05).distance
    return attack.reconstruct(
        Case(observation, knowledge, Budget(60, restarts), streams, distance, generator=generator)
    )


def test_a_refined_search_ends_where_its_last_prior_leads(generator, seen):
    observation, knowledge, _, labels = seen
    plain, once = run(generator, seen), run(generator, seen, refinements=1)
    scene = scene_of("the test", generator, observation, knowledge, MatchedNoise(sigma=0.05).distance)
    near = near_posterior(posterior_of(scene, labels, 100.0), plain.images, labels, NEIGHBOURS)
    factor, mean = near.scene.generator.factor, near.scene.generator.mean
    flat = once.images.flatten(1) - mean
    latents = torch.linalg.lstsq(factor, flat[..., None]).solution[..., 0]
    value, slope = near(latents, torch.arange(3))
    assert torch.allclose(value, once.candidate_losses[:, 0], rtol=1e-6)
    assert float(slope.norm(dim=1).max()) < 0.05 * float(near(0 * latents, torch.arange(3))[1].norm(dim=1).min())
    assert once.latents is None
    assert all(two.evaluations > one.evaluations for one, two in zip(plain.starts, once.starts, strict=True))


def test_what_cannot_be_refined_is_refused(generator, seen, digits):
    with pytest.raises(UserError, match="set restarts: 1"):
        run(generator, seen, restarts=2, refinements=1)
    forgetful = ClassGaussian().fitted(digits[0][:PUBLIC], digits[1][:PUBLIC], CLASSES)
    with pytest.raises(UserError, match="the generator keeps 0: choose class-gaussian with kept at least 30"):
        run(forgetful, seen, refinements=1)
    with pytest.raises(UserError, match="at least two neighbours"):
        AnnealedMap(neighbours=1)
    with pytest.raises(UserError, match="needs 200 images of each class"):
        ClassGaussian(kept=200).fitted(digits[0][:PUBLIC], digits[1][:PUBLIC], CLASSES)


def test_the_images_are_kept_on_disk_as_they_were(generator, tmp_path):
    save_generator(tmp_path / "generator.safetensors", generator, "class-gaussian", {"kept": KEPT})
    again = load_generator(tmp_path / "generator.safetensors")
    assert torch.equal(again.public, generator.public)
    assert again.public.dtype == torch.uint8
