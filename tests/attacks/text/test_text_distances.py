"""The distances against plain formulas, and F6: which of them see a factor on the observation."""

import math

import pytest
import torch

from leaklab.attacks.text.distances import TEXT_DISTANCES, MeanCosine, ProfiledTag, Tag
from leaklab.records.streams import stream

SHAPES = [(4, 3), (4,), (2, 4)]
SCALE_FREE = ("profiled-tag", "mean-cosine")


@pytest.fixture
def pair():
    draws = stream(1, "gradients")
    return tuple([draws.normal(*shape) for shape in SHAPES] for _ in range(2))


def plain_tag(gradients, observed, power=1):
    total = 0.0
    for place, (g, o) in enumerate(zip(gradients, observed, strict=True)):
        entries = (g - o).flatten().tolist()
        total += math.sqrt(sum(x * x for x in entries)) ** power
        total += 0.01 * (len(gradients) - place) / len(gradients) * sum(abs(x) for x in entries)
    return total


def test_tag_is_the_sum_of_norms_and_weighted_absolute_values(pair):
    assert float(Tag()(*pair)) == pytest.approx(plain_tag(*pair), rel=1e-12)
    assert float(Tag(squared=True)(*pair)) == pytest.approx(plain_tag(*pair, power=2), rel=1e-12)


def test_the_weights_of_the_absolute_values_fall_linearly_from_the_first_tensor():
    def absolute_part(place):
        gradients = [torch.zeros(1, dtype=torch.float64) for _ in range(4)]
        gradients[place] += 1
        zeros = [torch.zeros(1, dtype=torch.float64)] * 4
        return float(Tag(first_weight=0.01)(gradients, zeros) - Tag(first_weight=0.0)(gradients, zeros))

    assert [absolute_part(place) for place in range(4)] == pytest.approx([0.01, 0.0075, 0.005, 0.0025])


def test_profiled_tag_is_tag_at_the_best_scale_in_units_of_the_observation(pair):
    gradients, observed = pair
    g, o = (torch.cat([value.flatten() for value in tensors]) for tensors in pair)
    grid = torch.linspace(-3, 3, 600_001, dtype=torch.float64)
    best = grid[
        ((grid[:, None] * g[:3] - o[:3]) ** 2)
        .sum(1)
        .add((grid**2 * (g[3:] @ g[3:])) - 2 * grid * (g[3:] @ o[3:]) + o[3:] @ o[3:])
        .argmin()
    ]
    expected = plain_tag([float(best) * value for value in gradients], observed) / float(o.norm())
    assert float(ProfiledTag()(gradients, observed)) == pytest.approx(expected, rel=1e-4)


def test_mean_cosine_is_the_mean_over_tensors(pair):
    cosines = [float((g * o).sum() / g.norm() / o.norm()) for g, o in zip(*pair, strict=True)]
    assert float(MeanCosine()(*pair)) == pytest.approx(1 - sum(cosines) / len(SHAPES), rel=1e-12)


def test_a_tensor_of_rounding_errors_has_no_cosine(pair):
    noise = 1e-12 * stream(9, "noise").normal(5)
    gradients, observed = ([*tensors, sign * noise] for tensors, sign in zip(pair, (1, -1), strict=True))
    assert torch.equal(MeanCosine()(gradients, observed), MeanCosine()(*pair))


@pytest.mark.parametrize("distance", TEXT_DISTANCES.values(), ids=TEXT_DISTANCES)
def test_derivative_equals_finite_differences(pair, distance):
    gradients, observed = [g.requires_grad_() for g in pair[0]], pair[1]
    derivatives = torch.autograd.grad(distance(gradients, observed), gradients)
    moved = [stream(5, "direction", place).normal(*shape) for place, shape in enumerate(SHAPES)]
    step = 1e-6
    there, back = (
        float(distance([g.detach() + sign * step * d for g, d in zip(gradients, moved, strict=True)], observed))
        for sign in (1, -1)
    )
    ours = sum(float((a * b).sum()) for a, b in zip(derivatives, moved, strict=True))
    assert ours == pytest.approx((there - back) / (2 * step), rel=1e-6)


@pytest.mark.parametrize("name", TEXT_DISTANCES)
@pytest.mark.parametrize("factor", [0.01, 0.5, 3.5, 100.0])
def test_f6_a_factor_on_the_observation(pair, name, factor):
    distance, (gradients, observed) = TEXT_DISTANCES[name], pair
    reference = float(distance(gradients, observed))
    scaled = float(distance(gradients, [factor * o for o in observed]))
    assert (abs(scaled - reference) < 1e-9) == (name in SCALE_FREE)


@pytest.mark.parametrize("name", TEXT_DISTANCES)
def test_the_truth_is_a_zero_even_with_a_factor_where_the_scale_is_free(pair, name):
    distance, observed = TEXT_DISTANCES[name], pair[0]
    assert abs(float(distance(observed, observed))) < 1e-12
    assert (abs(float(distance(observed, [2 * o for o in observed]))) < 1e-12) == (name in SCALE_FREE)


@pytest.mark.parametrize("name", TEXT_DISTANCES)
def test_gradients_of_zero_have_a_finite_loss(pair, name):
    zeros = [torch.zeros(shape, dtype=torch.float64, requires_grad=True) for shape in SHAPES]
    for gradients, observed in ((zeros, pair[1]), (zeros, [z.detach() for z in zeros])):
        value = TEXT_DISTANCES[name](gradients, observed)
        assert value.isfinite()
        derivatives = torch.autograd.grad(value, gradients, allow_unused=True)
        assert all(d is None or d.isfinite().all() for d in derivatives)
