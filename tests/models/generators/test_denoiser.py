"""The denoiser: Gaussian algebra before it has learnt, better than that afterwards, the same bytes when killed."""

from functools import partial

import pytest
import torch
from sklearn.datasets import load_digits
from torch.nn import functional as F

from leaklab.models.generators.base import load_generator, save_generator
from leaklab.models.generators.class_gaussian import ClassGaussian
from leaklab.models.generators.denoiser import Denoiser
from leaklab.models.generators.denoising import DenoiserTraining
from leaklab.records.errors import UserError
from leaklab.records.kept import KeptTensors
from leaklab.records.streams import stream

CLASSES, PUBLIC, FLOOR = 10, 1500, 0.02
SCHEDULE = DenoiserTraining(steps=12, batch_size=8, rate=2e-3, average=0.98)


@pytest.fixture(scope="module")
def images():
    loaded = load_digits()
    return torch.tensor(loaded.images / 16, dtype=torch.float32)[:, None], torch.tensor(loaded.target)


def learnt(images, steps=SCHEDULE, kept=None, pooled=False):
    settings = Denoiser(width=8, floor=FLOOR, pooled=pooled)
    public = images[0][:PUBLIC], images[1][:PUBLIC]
    return settings.trained(*public, CLASSES, steps, partial(stream, 0, "generator"), kept=kept)


@pytest.fixture(scope="module")
def generator(images):
    return learnt(images)


@pytest.fixture(scope="module")
def blurred(images):
    """Return held-out images, the same with noise, its deviations, and one-hot classes."""
    truth, classes = images[0][PUBLIC:], F.one_hot(images[1][PUBLIC:], CLASSES).float()
    deviations = 0.05 + stream(1, "deviations").uniform(len(truth)).float()
    noise = stream(1, "noise").normal(*truth.shape).float()
    return truth, truth + deviations[:, None, None, None] * noise, deviations, classes


@pytest.mark.parametrize("pooled", [False, True])
def test_the_filter_is_the_mean_of_a_gaussian_given_its_noisy_sum(images, blurred, pooled):
    """Against the normal equations with the covariance itself: m + C (C + s^2 I)^-1 (x - m)."""
    public, labels = images[0][:PUBLIC].flatten(1).double(), images[1][:PUBLIC]
    generator = learnt(images, DenoiserTraining(1, 2, 1e-9, 0.0), pooled=pooled).double()
    _, seen, deviations, classes = (one[:20].double() for one in blurred)
    found, errors, means = generator.filtered(seen.flatten(1), deviations, classes)
    means_of = [public[labels == k].mean(0) for k in range(CLASSES)]
    within = sum((public[labels == k] - m).T @ (public[labels == k] - m) for k, m in enumerate(means_of))
    for row, label in enumerate(classes.argmax(1).tolist()):
        mean = means_of[label]
        covariance = within / (PUBLIC - CLASSES) if pooled else torch.cov(public[labels == label].T)
        covariance = covariance + FLOOR**2 * torch.eye(64)
        gain = covariance @ torch.linalg.inv(covariance + deviations[row] ** 2 * torch.eye(64))
        assert torch.allclose(found[row], mean + gain @ (seen[row].flatten() - mean), atol=2e-5)
        assert torch.allclose(means[row], mean, atol=1e-6)
        left = covariance - gain @ covariance
        assert torch.allclose(errors[row] ** 2, left.diagonal().mean(), rtol=1e-3)
        half = generator.left(float(deviations[row]), label)
        assert torch.allclose(half @ half.T, left, atol=2e-5)


def test_it_begins_at_the_filter(images, generator, blurred):
    truth, seen, deviations, classes = blurred
    begun = learnt(images, DenoiserTraining(1, 2, 1e-12, 0.0))
    filtered = generator.filtered(seen.flatten(1), deviations, classes)[0].view_as(truth)
    with torch.no_grad():
        assert torch.allclose(begun.denoised(seen, deviations, classes), filtered, atol=1e-5)


def test_it_learns_more_than_mean_and_covariance_know():
    """A class is two shades: a filter mixes them, and who has learnt that there are two takes the nearer one.

    The best answer is the mean under the mixture, in closed form; no denoiser's error is below its own.
    """
    shades, grain, noise = torch.tensor([[0.2, 0.8], [0.4, 1.0]]), 0.03, 0.5

    def drawn(seed, count):
        labels, which = (stream(seed, name).integers(0, 2, count) for name in ("class", "shade"))
        images = shades[labels, which][:, None, None, None] + grain * stream(seed).normal(count, 1, 8, 8).float()
        return images.clamp(0, 1), labels

    schedule = DenoiserTraining(steps=150, batch_size=32, rate=5e-3, average=0.9)
    generator = Denoiser(width=8).trained(*drawn(1, 1000), 2, schedule, partial(stream, 0, "generator"))
    truth, labels = drawn(2, 300)
    seen, deviations = truth + noise * stream(3).normal(*truth.shape).float(), torch.full((300,), noise)
    classes = F.one_hot(labels, 2).float()
    with torch.no_grad():
        answers = {
            "filter": generator.filtered(seen.flatten(1), deviations, classes)[0].view_as(truth),
            "learnt": generator.denoised(seen, deviations, classes),
            "best": _mean_of_two(seen, shades[labels], grain, noise),
        }
    error = {name: float(((answer - truth) ** 2).mean()) for name, answer in answers.items()}
    assert error["best"] < error["learnt"] < 0.8 * error["filter"]


def _mean_of_two(seen, shades, grain, noise):
    apart = seen[:, None] - shades[:, :, None, None, None]
    odds = (-(apart.flatten(2) ** 2).sum(2) / 2 / (grain**2 + noise**2)).softmax(1)[:, :, None, None, None]
    return (odds * (shades[:, :, None, None, None] + grain**2 / (grain**2 + noise**2) * apart)).sum(1)


def test_a_killed_training_ends_with_the_same_bytes(images, generator, tmp_path):
    class KilledAfter(KeptTensors):
        def offer(self, tensors):
            state = tensors()
            self.keep(state)
            if int(state["step"]) == 5:
                raise KeyboardInterrupt

    file = tmp_path / "kept.safetensors"
    with pytest.raises(KeyboardInterrupt):
        learnt(images, kept=KilledAfter(file, "same"))
    resumed = learnt(images, kept=KeptTensors(file, "same", 1e9))
    for name, value in generator.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


def test_it_draws_what_class_gaussian_draws_and_comes_back_from_its_file(images, generator, blurred, tmp_path):
    gaussian = ClassGaussian(floor=FLOOR).fitted(images[0][:PUBLIC], images[1][:PUBLIC], CLASSES)
    latents, classes = stream(2).normal(5, 64).float(), F.one_hot(torch.arange(5), CLASSES).float()
    assert torch.equal(generator.generate(latents, classes), gaussian.generate(latents, classes))
    save_generator(tmp_path / "g.safetensors", generator, "denoiser", {"width": 8, "floor": FLOOR})
    read = load_generator(tmp_path / "g.safetensors")
    _, seen, deviations, one_hot = blurred
    assert torch.equal(read.denoised(seen, deviations, one_hot), generator.denoised(seen, deviations, one_hot))


def test_classes_that_share_their_components_draw_with_the_covariance_within_classes(images):
    public, labels = images[0][:PUBLIC].double(), images[1][:PUBLIC]
    pooled = ClassGaussian(floor=0.0, pooled=True).fitted(public, labels, CLASSES)
    apart = torch.cat([public[labels == k].flatten(1) - public[labels == k].flatten(1).mean(0) for k in range(CLASSES)])
    assert pooled.factor.shape == (1, 64, 64)
    factor = pooled.factor[0].double()
    assert torch.allclose(factor @ factor.T, apart.T @ apart / (PUBLIC - CLASSES), atol=1e-5)
    latents, classes = stream(3).normal(1, 64).float().expand(2, -1), F.one_hot(torch.tensor([2, 7]), CLASSES).float()
    drawn = pooled.generate(latents, classes).flatten(1) - pooled.mean[[2, 7]]
    assert torch.allclose(drawn[0], drawn[1], atol=1e-6)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"alone": 7}, "class 7 has 1"),
        ({"shape": (1, 6, 8)}, "multiples of 4"),
        ({"rate": 1e9}, "diverged"),
    ],
)
def test_what_cannot_be_learnt_is_one_line(images, change, said):
    shape = change.get("shape", (1, 8, 8))
    labels = images[1][:PUBLIC]
    kept = torch.ones(PUBLIC, dtype=torch.bool)
    if "alone" in change:
        kept[(labels == change["alone"]).nonzero()[1:, 0]] = False
    public = images[0][:PUBLIC, :, : shape[1], : shape[2]][kept]
    schedule = DenoiserTraining(40, 8, change.get("rate", 1e-3), 0.0)
    with pytest.raises(UserError, match=said):
        Denoiser(width=8).trained(public, labels[kept], CLASSES, schedule, partial(stream, 0))
