"""Total variation, the box, and an objective with a prior."""

import pytest
import torch

from leaklab.attacks.search.priors import Box, WithPrior, total_variation
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

SHAPE = (2, 3, 4, 5)
PIXELS = 2 * 3 * 4 * 5
UNITS = torch.tensor([1.0, 0.0, 2.5, 1e-3, 400.0, 7.0], dtype=torch.float64)


def plain_variation(images):
    """One trial [B, C, H, W], pixel by pixel."""
    batch, channels, height, width = images.shape
    across, down = [], []
    for b in range(batch):
        for c in range(channels):
            across += [
                abs(images[b, c, i, j + 1] - images[b, c, i, j]) for i in range(height) for j in range(width - 1)
            ]
            down += [abs(images[b, c, i + 1, j] - images[b, c, i, j]) for i in range(height - 1) for j in range(width)]
    return float(sum(across) / len(across) + sum(down) / len(down))


def half_square(points, rows):
    return (points**2).sum(1) / 2 + rows, points.clone()


@pytest.fixture
def images():
    return stream(0, "images").normal(6, *SHAPE)


def test_total_variation_is_the_sum_of_two_means(images):
    expected = [plain_variation(image) for image in images]
    assert total_variation(images).tolist() == pytest.approx(expected, rel=1e-12)


def test_a_ramp_and_a_flat_image():
    ramp = torch.arange(4.0, dtype=torch.float64).expand(1, 1, 1, 3, 4)
    assert total_variation(ramp).tolist() == [1.0]
    assert total_variation(torch.ones(2, 1, 1, 3, 4)).tolist() == [0.0, 0.0]


def test_a_line_of_pixels_is_refused():
    with pytest.raises(UserError, match="1x8"):
        total_variation(torch.zeros(2, 1, 1, 1, 8))


def test_the_prior_is_added_with_its_weight_in_units_of_each_trial_and_its_derivative(images):
    points, rows = images.flatten(1), torch.arange(6)
    loss, derivative = WithPrior(half_square, total_variation, 0.3, SHAPE, UNITS)(points, rows)
    leaf = points.clone().requires_grad_()
    expected = (leaf**2).sum(1) / 2 + rows + 0.3 * UNITS * total_variation(leaf.view(6, *SHAPE))
    (slope,) = torch.autograd.grad(expected.sum(), leaf)
    assert torch.allclose(loss, expected.detach(), rtol=1e-14, atol=0)
    assert torch.allclose(derivative, slope, rtol=0, atol=1e-14)
    assert not derivative.requires_grad


def test_unknowns_behind_the_images_have_no_prior(images):
    logits = stream(0, "logits").normal(6, 7)
    objective = WithPrior(half_square, total_variation, 0.3, SHAPE, UNITS)
    _, with_logits = objective(torch.cat([images.flatten(1), logits], 1), torch.arange(6))
    _, without = objective(images.flatten(1), torch.arange(6))
    assert torch.equal(with_logits[:, :PIXELS], without)
    assert torch.equal(with_logits[:, PIXELS:], logits)


@pytest.mark.parametrize("weight", [-1e-4, float("nan"), float("inf")])
def test_a_weight_that_makes_no_sense(weight):
    with pytest.raises(UserError, match="weight"):
        WithPrior(half_square, total_variation, weight, SHAPE, UNITS)


def test_the_box_projects():
    points = torch.tensor([[-1.0, 0.25, 2.0]])
    assert Box().project(points).tolist() == [[0.0, 0.25, 1.0]]
    assert Box(-2.0, 0.0).project(points).tolist() == [[-1.0, 0.0, 0.0]]


@pytest.mark.parametrize("bounds", [(1.0, 1.0), (1.0, 0.0), (0.0, float("nan"))])
def test_an_empty_box_is_refused(bounds):
    with pytest.raises(UserError, match="box"):
        Box(*bounds)
