"""The coordinates of a large head's gradient against the gradient itself, at the wide initialisation of figure 2."""

import pytest
import torch

from leaklab.attacks.matching.distances import DISTANCES
from leaklab.attacks.matching.gradients import layered_gradients
from leaklab.attacks.matching.inversion import Inversion
from leaklab.attacks.matching.rank_one_head import LARGE_HEAD, RankOneHeadInversion, inversion_of
from leaklab.models.cnns import DLGLeNet
from leaklab.records.streams import stream

SHAPE, CLASSES, TRIALS = (3, 32, 32), 1400, 3


@pytest.fixture(scope="module")
def network():
    return DLGLeNet().initialised(SHAPE, CLASSES, 0, torch.float64).requires_grad_(requires_grad=False)


@pytest.fixture(scope="module")
def truth(network):
    draws = stream(3, "rank one")
    images = (0.5 + 0.25 * draws.normal(TRIALS, 1, *SHAPE)).requires_grad_()
    targets = torch.nn.functional.one_hot(torch.tensor([[5], [99], [1399]]), CLASSES).double()
    # trial 1 sees its gradient times a hidden rate, as under LRP
    scales = torch.tensor([1.0, 0.3, 1.0], dtype=torch.float64)
    gradients = layered_gradients(network, images, targets)
    observed = [g.detach() * scales.view(-1, *[1] * (g.dim() - 1)) for g in gradients]
    return images.detach(), observed


def both(network, observed, distance, labels=None):
    arguments = network, observed, (1, *SHAPE), CLASSES, DISTANCES[distance], labels
    return RankOneHeadInversion(*arguments), Inversion(*arguments)


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("fixed", [False, True], ids=["soft labels", "fixed labels"])
def test_loss_and_derivative_are_those_of_the_whole_gradient(network, truth, distance, fixed):
    labels = torch.tensor([[5], [99], [7]]) if fixed else None
    short, whole = both(network, truth[1], distance, labels)
    rows = torch.tensor([2, 0])
    points = torch.stack([whole.normal_start(stream(0, "start", int(row))) for row in rows])
    for ours, theirs in zip(short(points, rows), whole(points, rows), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-9, atol=1e-12 * float(theirs.abs().max()))
    assert torch.allclose(short.loss_of_nothing(), whole.loss_of_nothing(), rtol=1e-12)


@pytest.mark.parametrize("distance", DISTANCES)
def test_nothing_is_lost_near_the_match(network, truth, distance):
    """The expansion |g'|^2 - 2 g'o + |o|^2 has a floor of 1e-16 |o|^2; the coordinates follow the loss below it."""
    short, whole = both(network, truth[1], distance, torch.tensor([[5], [99], [1399]]))
    rows = torch.tensor([0])
    points = truth[0][:1].flatten(1) + 1e-9 * stream(0, "nearby").normal(1, 3 * 32 * 32)
    ours, theirs = short(points, rows), whole(points, rows)
    assert float(theirs[0]) < 1e-17 * float(whole.loss_of_nothing()[0])
    assert torch.allclose(ours[0], theirs[0], rtol=1e-4)
    assert torch.nn.functional.cosine_similarity(ours[1], theirs[1]).item() > 1 - 1e-6


def test_only_a_large_head_seen_with_one_sample_is_shortened(network, truth, network_of, observe, digits):
    def chosen(network, observed, shape, classes):
        return type(inversion_of(network, observed, shape, classes, DISTANCES["squared-l2"], None))

    observed = truth[1]
    assert observed[-2][0].numel() >= LARGE_HEAD
    assert chosen(network, observed, (1, *SHAPE), CLASSES) is RankOneHeadInversion
    assert chosen(network, observed, (2, *SHAPE), CLASSES) is Inversion
    noised = [*observed[:-2], observed[-2] + 1e-6 * stream(0, "noise").normal(*observed[-2].shape), observed[-1]]
    assert chosen(network, noised, (1, *SHAPE), CLASSES) is Inversion
    small = list(observe(digits[0][:2, None], digits[1][:2, None]).update.values())
    assert chosen(network_of().requires_grad_(requires_grad=False), small, (1, 1, 8, 8), 10) is Inversion
