"""The cosine objective: against plain autograd, at the truth, under factors, and where it has no direction."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from leaklab.attacks.matching.cosine import CosineInversion, cosine_distance
from leaklab.attacks.matching.inversion import Inversion
from leaklab.attacks.search.signed_adam import SignedAdamSettings, signed_adam
from leaklab.models.resnets import SmallResNet
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

TRIALS, BATCH, CLASSES, SHAPE = 3, 2, 10, (1, 8, 8)
ROWS = torch.arange(TRIALS)


class OtherResNet(nn.Sequential):
    """A network that has no formulas (a norm over groups), so its gradients are formed."""

    def __init__(self):
        super().__init__(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.Tanh(), nn.Flatten(), nn.Linear(144, CLASSES))


def residual():
    return SmallResNet(width=4).initialised(SHAPE, CLASSES, 0, torch.float64).eval()


def grouped():
    network = OtherResNet().double()
    for name, value in network.state_dict().items():
        value.copy_(stream(0, name).normal(*value.shape) / 3)
    return network


@pytest.fixture(params=[residual, grouped], ids=["products", "formed"])
def network(request):
    return request.param().requires_grad_(requires_grad=False)


@pytest.fixture
def truth(digits):
    images, labels = (value[: TRIALS * BATCH].unflatten(0, (TRIALS, BATCH)) for value in digits)
    return images, labels


def gradients_of(network, images, labels):
    """One trial at a time, by autograd."""
    parameters = [parameter.requires_grad_() for parameter in network.parameters()]
    rows = [
        torch.autograd.grad(F.cross_entropy(network(image), label), parameters, create_graph=True)
        for image, label in zip(images, labels, strict=True)
    ]
    network.requires_grad_(requires_grad=False)
    return [torch.stack(column) for column in zip(*rows, strict=True)]


def observed_of(network, truth):
    return [value.detach() for value in gradients_of(network, *truth)]


def objective_of(network, truth, factor=1.0, labels=True):
    observed = [value * factor for value in observed_of(network, truth)]
    return CosineInversion(network, observed, (BATCH, *SHAPE), CLASSES, truth[1] if labels else None)


def points_of(name="points"):
    return stream(0, name).uniform(TRIALS, BATCH * 64)


def test_value_and_derivative_equal_plain_autograd(network, truth):
    points = points_of().requires_grad_()
    gradients = gradients_of(network, points.view(TRIALS, BATCH, *SHAPE), truth[1])
    flat, wanted = (
        torch.cat([value.flatten(1) for value in values], 1) for values in (gradients, observed_of(network, truth))
    )
    expected = 1 - torch.cosine_similarity(flat, wanted, 1, eps=0)
    (slope,) = torch.autograd.grad(expected.sum(), points)
    loss, derivative = objective_of(network, truth)(points, ROWS)
    assert torch.allclose(loss, expected.detach(), rtol=1e-9, atol=0)
    assert torch.allclose(derivative, slope, rtol=0, atol=1e-9 * float(slope.abs().max()))
    assert not loss.requires_grad
    assert not derivative.requires_grad


def test_f1_at_the_truth_there_is_nothing_left_but_rounding(network, truth):
    """0 with zero derivative; by products both are differences of ones, so a few roundings (2e-16) are left."""
    objective = objective_of(network, truth)
    loss, derivative = objective(truth[0].flatten(1), ROWS)
    _, elsewhere = objective(points_of(), ROWS)
    if network_has_formulas(network):
        assert loss.abs().max() < 1e-14
        assert derivative.abs().max() < 1e-12 * elsewhere.abs().max()
    else:
        assert loss.max() < 1e-28
        assert derivative.abs().max() < 1e-14 * elsewhere.abs().max()


def network_has_formulas(network):
    return not any(isinstance(layer, nn.GroupNorm) for layer in network.modules())


def test_the_floor_in_single_precision(truth):
    network = residual().requires_grad_(requires_grad=False)
    observed = [value.float() for value in observed_of(network, truth)]
    objective = CosineInversion(network.float(), observed, (BATCH, *SHAPE), CLASSES, truth[1])
    loss, _ = objective(truth[0].float().flatten(1), ROWS)
    assert loss.abs().max() < 1e-6


@pytest.mark.parametrize("factor", [1e-6, 0.3, 7.0, 1e6])
def test_f6_a_factor_on_the_observed_gradient_changes_nothing(network, truth, factor):
    plain, scaled = (objective_of(network, truth, value)(points_of(), ROWS) for value in (1.0, factor))
    for one, other in zip(plain, scaled, strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-12 * float(one.abs().max()))


def test_f6_a_power_of_two_changes_not_a_bit(network, truth):
    plain, scaled = (objective_of(network, truth, value)(points_of(), ROWS) for value in (1.0, 0.25))
    assert all(torch.equal(one, other) for one, other in zip(plain, scaled, strict=True))


def test_the_opposite_direction_is_worst(network, truth):
    loss, _ = objective_of(network, truth, -1.0)(truth[0].flatten(1), ROWS)
    assert torch.allclose(loss, torch.full((TRIALS,), 2.0).double())


def test_a_trial_does_not_depend_on_its_neighbours(network, truth):
    objective, points = objective_of(network, truth), points_of()
    together = objective(points, ROWS)
    some = torch.tensor([2, 0])
    for many, few in zip(together, objective(points[some], some), strict=True):
        assert torch.allclose(many[some], few, rtol=1e-10, atol=1e-13)


def test_labels_can_be_searched_with_the_images(network, truth):
    objective = objective_of(network, truth, labels=False)
    logits = torch.where(F.one_hot(truth[1], CLASSES) > 0, 0.0, -1e3).double().flatten(1)
    loss, derivative = objective(torch.cat([truth[0].flatten(1), logits], 1), ROWS)
    assert objective.unknowns == derivative.shape[1] == BATCH * (64 + CLASSES)
    assert loss.abs().max() < 1e-14


def test_a_dummy_without_a_gradient_has_no_direction(truth):
    network = grouped().requires_grad_(requires_grad=False)
    for kind in (residual().requires_grad_(requires_grad=False), network):
        objective = objective_of(kind, truth)
        last = next(reversed(list(kind.modules())))
        labels = truth[1].clone()
        last.bias.fill_(-1e4)[labels[0, 0]] = 1e4  # so sure that its cross-entropy has no slope
        labels[0] = labels[0, 0]
        objective.labels = labels
        loss, derivative = objective(points_of()[:1], ROWS[:1])
        assert loss.tolist() == [1.0]
        assert torch.equal(derivative, torch.zeros_like(derivative))


def test_an_observed_gradient_of_zero_has_no_direction_either(network, truth):
    loss, derivative = objective_of(network, truth, 0.0)(points_of(), ROWS)
    assert torch.equal(loss, torch.ones_like(loss))
    assert torch.equal(derivative, torch.zeros_like(derivative))


def test_an_observed_gradient_that_is_not_finite_is_refused(network, truth):
    with pytest.raises(UserError, match="not finite"):
        objective_of(network, truth, float("nan"))


def test_as_a_distance_it_has_no_floor():
    """Gradients that differ by 1e-10: the value is half the squared angle."""
    first = [torch.tensor([[1.0, 0.0]]).double(), torch.zeros(1, 3).double()]
    second = [torch.tensor([[2.0, 2e-10]]).double(), torch.zeros(1, 3).double()]
    value, residuals, factor = cosine_distance(first, second)
    assert float(value) == pytest.approx(0.5e-20, rel=1e-5)
    assert float(factor * residuals[0][0, 1]) == pytest.approx(-1e-10, rel=1e-5)


def test_the_distance_serves_any_objective_of_matching(truth):
    network = residual().requires_grad_(requires_grad=False)
    shaped = Inversion(network, observed_of(network, truth), (BATCH, *SHAPE), CLASSES, cosine_distance, truth[1])
    for one, other in zip(shaped(points_of(), ROWS), objective_of(network, truth)(points_of(), ROWS), strict=True):
        assert torch.allclose(one, other, rtol=1e-9, atol=1e-12)
    assert torch.allclose(shaped.loss_of_nothing(), torch.ones(TRIALS).double())


def test_the_loss_falls_on_a_residual_network(truth):
    network = residual().requires_grad_(requires_grad=False)
    objective = objective_of(network, truth)
    found = signed_adam(objective, lambda row, start: points_of()[row], TRIALS, SignedAdamSettings(40, 1))
    assert (found.losses[:, 0] < 0.5 * objective(points_of(), ROWS)[0]).all()
