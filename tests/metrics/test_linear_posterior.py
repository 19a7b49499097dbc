"""The expected error of the linear posterior: closed forms, brute force, and the captures that it is made for."""

from math import sqrt

import pytest
import torch
from torch.nn import functional as F

from leaklab.captures.capture import capture
from leaklab.data.dataset import Dataset
from leaklab.metrics.linear_posterior import LinearPosterior, expected_errors, update_of
from leaklab.metrics.of_update import load_update_metrics
from leaklab.models.affine import LogisticRegression
from leaklab.models.cnns import DLGLeNet
from leaklab.models.generators.class_gaussian import ClassGaussian
from leaklab.records.streams import stream
from leaklab.specs.attack import ScoreSpec
from leaklab.specs.capture import CaptureSpec

SHAPE, CLASSES, PIXELS = (1, 8, 8), 10, 64
NOISE = {"name": "additive-noise", "sigma": 0.05}
CLIPPED = {"name": "clipping-noise", "sigma": 0.05, "bound": 2.0}


def draw(name, *shape):
    return stream(0, name).normal(*shape)


class TestLinearUpdates:
    """Of x -> A x everything is known."""

    SIGMA = 0.7

    @pytest.fixture(scope="class")
    def case(self):
        matrix, factors = draw("A", 5, 2 * 6), draw("L", 2, 6, 4)
        return matrix, factors, torch.block_diag(*factors)

    def errors(self, case, sigma=SIGMA):
        return expected_errors(
            lambda images: case[0] @ images.flatten(), torch.zeros(2, 1, 2, 3).double(), case[1], sigma
        )

    def test_it_is_the_posterior_covariance_written_the_other_way(self, case):
        """S - S A' (A S A' + sigma^2)^-1 A S, S = L L'; both images of a batch know of each other."""
        matrix, _, factor = case
        prior = factor @ factor.T
        gain = prior @ matrix.T @ torch.linalg.inv(matrix @ prior @ matrix.T + self.SIGMA**2 * torch.eye(5).double())
        left = (prior - gain @ matrix @ prior).diagonal().view(2, 6).mean(1)
        assert torch.allclose(self.errors(case), left)

    def test_it_is_the_mean_error_of_the_likeliest_image(self, case):
        """Draw images and noise, take for each the ridge solution, and average."""
        matrix, _, factor = case
        draws = 20_000
        latents, noise = draw("z", draws, 8), self.SIGMA * draw("n", draws, 5)
        design = matrix @ factor
        seen = latents @ design.T + noise
        solved = torch.linalg.solve(self.SIGMA**2 * torch.eye(8).double() + design.T @ design, design.T @ seen.T).T
        errors = ((solved - latents) @ factor.T).view(draws, 2, 6).square().mean(2)
        assert torch.all((errors.mean(0) - self.errors(case)).abs() < 4 * errors.std(0) / sqrt(draws))

    def test_without_noise_what_is_seen_is_known_and_with_endless_noise_nothing(self, case):
        square = (draw("square", 12, 12), *case[1:])
        assert self.errors(square, 1e-6).max() < 1e-9
        assert torch.allclose(self.errors(case, 1e6), (case[1] ** 2).sum((1, 2)) / 6)


def test_of_a_linear_victim_it_is_a_ridge_in_the_components():
    """With zero weights a logistic regression's gradient is d x' and d: so J'J = |d|^2 for every pixel."""
    network = LogisticRegression().initialised(SHAPE, CLASSES, 0, torch.float64).requires_grad_(requires_grad=False)
    for parameter in network.parameters():
        parameter.zero_()
    image, factor = stream(0, "x").uniform(1, *SHAPE), draw("L", 1, PIXELS, PIXELS) / 8
    found = expected_errors(update_of(network, torch.tensor([3]), CLASSES, None), image, factor, 0.3)
    slope = torch.full((CLASSES,), 1 / CLASSES).double()
    slope[3] -= 1
    deviations = torch.linalg.svdvals(factor[0])
    expected = (deviations**2 / (1 + (slope @ slope) * deviations**2 / 0.3**2)).sum() / PIXELS
    assert torch.allclose(found, expected[None])


@pytest.mark.parametrize("bound", [None, 1.5, 1e6])
def test_brute_force_differences_of_the_clients_gradient_give_the_same(bound):
    """Two digits in one batch; the gradient by plain autograd, clipped as a client clips, one pixel after the other."""
    network = DLGLeNet().initialised(SHAPE, CLASSES, 0, torch.float64)
    images, labels = stream(0, "x").uniform(2, *SHAPE), torch.tensor([3, 7])
    factors, sigma, step = draw("L", 2, PIXELS, 20) / 5, 0.05, 1e-5

    def sent(batch):
        loss = F.cross_entropy(network(batch), labels)
        flat = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(network.parameters()))])
        return flat if bound is None else flat * min(1.0, bound / float(flat.norm()))

    columns = []
    for pixel in torch.eye(2 * PIXELS).double().view(-1, 2, *SHAPE):
        columns.append((sent(images + step * pixel) - sent(images - step * pixel)) / (2 * step))
    seen = torch.stack(columns, 1) @ torch.block_diag(*factors)
    covariance = torch.linalg.inv(torch.eye(40).double() + seen.T @ seen / sigma**2)
    left = torch.block_diag(*factors) @ covariance @ torch.block_diag(*factors).T
    frozen = network.requires_grad_(requires_grad=False)
    found = expected_errors(update_of(frozen, labels, CLASSES, bound), images, factors, sigma)
    assert torch.allclose(found, left.diagonal().view(2, PIXELS).mean(1), rtol=1e-6)


class TestCaptures:
    """The plug-in on real captures of digits."""

    @pytest.fixture(scope="class")
    def generator(self, digits):
        return ClassGaussian().fitted(digits.train_images / 255, digits.train_labels, CLASSES)

    @pytest.fixture(scope="class")
    def digits(self):
        from sklearn.datasets import load_digits

        loaded = load_digits()
        images, labels = (
            torch.tensor(loaded.images * 255 / 16).round().to(torch.uint8)[:, None],
            torch.tensor(loaded.target),
        )
        one = torch.ones(1)
        return Dataset("digits", 10, images[:1000], labels[:1000], images[1000:], labels[1000:], 0 * one, one)

    @pytest.fixture(scope="class")
    def values(self, digits, generator):
        def of(defense, **changes):
            fields = {"dataset": "digits", "images": {"count": 2, "seed": 1}, "model": "dlg-lenet", "defense": defense}
            spec = CaptureSpec.model_validate(fields | changes)
            return LinearPosterior().values(*capture(spec, digits)[:2], generator, capture(spec, digits)[2])

        return of

    def test_the_more_rounds_the_less_error_and_clipping_leaves_more(self, values):
        noise, clipped = ([values(defense, rounds=rounds) for rounds in (1, 5, 50)] for defense in (NOISE, CLIPPED))
        assert noise[0].shape == (2, 1)
        for one in (noise, clipped):
            assert (one[0] > one[1]).all()
            assert (one[1] > one[2]).all()
        assert all((more > less).all() for more, less in zip(clipped, noise, strict=True))

    def test_rounds_are_as_good_as_less_noise(self, values):
        quiet = {**NOISE, "sigma": 0.05 / sqrt(5)}
        assert torch.allclose(values(NOISE, rounds=5), values(quiet))

    def test_the_scale_of_the_inputs_and_what_is_observed_of_an_update_do_not_matter(self, values):
        assert torch.allclose(values(NOISE, kind="delta"), values(NOISE))
        # on [-1, 1] the gradient changes twice as much with a pixel of [0, 1], but at another point of the network
        assert (values(NOISE, input_range=[-1.0, 1.0]) != values(NOISE)).all()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"defense": "lrp"}, "it is that of the defenses additive-noise and clipping-noise"),
        ({"local_steps": 2}, "one local step"),
        ({"generator": {"dataset": "digits", "steps": 1}}, "its prior is the generator class-gaussian"),
        ({}, None),
    ],
)
def test_an_attack_without_such_a_number_says_why(change, reason):
    generator = change.pop("generator", {"dataset": "digits", "model": "class-gaussian", "steps": 1})
    private = {"dataset": "digits", "images": {"count": 1}, "model": "dlg-lenet", "defense": NOISE} | change
    attack = {"capture": private, "attack": "annealed-map", "iterations": 1, "generator": generator}
    spec = ScoreSpec.model_validate({"attack": attack, "metrics": ["mse", "linear-posterior"]})
    usable, reasons = load_update_metrics(spec)
    assert [metric.card.name for metric in usable] == ([] if reason else ["linear_posterior"])
    assert (reason or "") in reasons.get("linear_posterior", "")
    assert len(reasons) == (1 if reason else 0)
