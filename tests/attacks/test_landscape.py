"""Geometry of lines and planes, and what a hidden factor does to the loss on them."""

import pytest
import torch
from torch.nn import functional as F

from leaklab.attacks.latents.landscape import LINE, PLANE, LatentMatching, across, line, losses_on, plane, steps
from leaklab.attacks.matching.distances import profiled_scale, squared_l2
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

SHAPE, CLASSES, LATENT = (1, 8, 8), 10, 4
FIRST, SECOND = stream(0, "first").normal(LATENT), stream(0, "second").normal(LATENT)
LABELS = torch.tensor([3, 6])


@pytest.fixture(scope="module")
def matching_of(observe, network_of, waves):
    """Trial 1 is the image of SECOND; trial 0 is another one."""
    generator = waves()
    latents = torch.stack([FIRST + 1, SECOND])
    images = generator.generate(latents, F.one_hot(LABELS, CLASSES).double())[:, None]
    observed = list(observe(images, LABELS[:, None]).update.values())
    network = network_of().requires_grad_(requires_grad=False)

    def make(distance, factor=1.0):
        return LatentMatching(generator, network, [factor * value for value in observed], LABELS, distance)

    return make


def test_a_line_runs_through_both_ends():
    alphas = steps(*LINE)
    points = line(FIRST, SECOND, alphas)
    assert points.shape == (61, LATENT)
    assert torch.allclose(points[alphas.abs().argmin()], FIRST, atol=1e-12)
    assert torch.allclose(points[(alphas - 1).abs().argmin()], SECOND, atol=1e-12)
    assert torch.allclose(points[0], 1.25 * FIRST - 0.25 * SECOND)
    assert torch.allclose(points[-1], 1.25 * SECOND - 0.25 * FIRST)
    gaps = (points[1:] - points[:-1]).norm(dim=1)
    assert torch.allclose(gaps, 0.025 * (SECOND - FIRST).norm().expand(60))


def test_a_plane_contains_the_line_and_is_as_wide_as_it_is_long():
    third = across(FIRST, SECOND, stream(0, "across"))
    assert torch.allclose(third.norm(), (SECOND - FIRST).norm())
    alphas, betas = (steps(*ends) for ends in PLANE)
    points = plane(FIRST, SECOND, third, alphas, betas)
    assert points.shape == (31, 31, LATENT)
    assert torch.allclose(points[:, 15], line(FIRST, SECOND, alphas), atol=1e-12)
    assert torch.allclose(points[:, 30] - points[:, 0], 2 * third.expand(31, LATENT))
    assert torch.allclose(points[0, 0], FIRST - 0.5 * (SECOND - FIRST) - third)
    assert not torch.equal(third, across(FIRST, SECOND, stream(1, "across")))


@pytest.mark.parametrize("distance", [squared_l2, profiled_scale])
def test_the_loss_vanishes_at_the_truth_and_only_there(matching_of, distance):
    alphas = steps(*LINE)
    losses = losses_on(matching_of(distance), 1, line(FIRST, SECOND, alphas))
    assert losses.shape == (61,)
    assert int(losses.argmin()) == int((alphas - 1).abs().argmin())
    assert float(losses.min()) < 1e-12 < 1e-6 * float(losses.max())


def test_a_hidden_factor_reforms_the_plain_curve_and_leaves_the_profiled_one(matching_of):
    points = line(FIRST, SECOND, steps(*LINE))
    for factor in (0.1, 1.7, 4.0):
        undefended, scaled = (losses_on(matching_of(profiled_scale, s), 1, points) for s in (1.0, factor))
        assert torch.allclose(undefended, scaled, rtol=1e-9, atol=1e-12)
        plain, moved = (losses_on(matching_of(squared_l2, s), 1, points) for s in (1.0, factor))
        assert float((plain - moved).abs().max()) > 1e-3 * float(plain.max())
        assert float(moved.min()) > 1e-6 * float(moved.max())


def test_the_loss_of_a_plane_is_that_of_its_points(matching_of):
    matching = matching_of(squared_l2)
    points = plane(FIRST, SECOND, across(FIRST, SECOND, stream(0)), steps(-0.5, 1.5, 5), steps(-1, 1, 3))
    losses = losses_on(matching, 0, points)
    assert losses.shape == (5, 3)
    one = matching.evaluate(points[3, 2][None], torch.tensor([0]))[0]
    assert torch.allclose(losses[3, 2], one[0], rtol=1e-10)


def test_ends_that_span_no_line_are_refused():
    with pytest.raises(UserError, match="of one size"):
        line(FIRST, SECOND[:3], steps(*LINE))
    with pytest.raises(UserError, match="that differ"):
        line(FIRST, FIRST, steps(*LINE))
    with pytest.raises(UserError, match="finite"):
        across(FIRST, SECOND * torch.nan, stream(0))
