"""Losses over updates of several steps: zero at the truth, right derivatives, and what they cannot see."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from leaklab.attacks.matching.delta import DeltaMatching, JointRates, Samples, Surrogate
from leaklab.attacks.matching.distances import profiled_scale, squared_l2
from leaklab.attacks.matching.inversion import Inversion
from leaklab.attacks.matching.steps import LocalSteps, simulated_delta
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

SHAPE, CLASSES, TRIALS, STEPS, MEAN = (2, 1, 4, 4), 5, 3, 4, 0.1
ROWS = torch.arange(TRIALS)
DISTANCES = [squared_l2, profiled_scale]
LOSSES = {
    "nominal": lambda case, **more: DeltaMatching(case.network, case.delta, case.samples, MEANS, squared_l2, **more),
    "nominal, profiled": lambda case: DeltaMatching(case.network, case.delta, case.samples, MEANS, profiled_scale),
    "joint rates": lambda case: JointRates(case.network, case.delta, case.samples, MEANS, squared_l2),
    "joint rates, profiled": lambda case: JointRates(case.network, case.delta, case.samples, MEANS, profiled_scale),
    "surrogate": lambda case: Surrogate(case.network, case.delta, case.samples),
}
MEANS = torch.full((STEPS,), MEAN, dtype=torch.float64)


class Case:
    """Clients with two samples on a tiny sigmoid network, their rates and their deltas."""

    def __init__(self, rates=None, steps=LocalSteps()):  # noqa: B008
        draws = stream(0, "case")
        layers = nn.Flatten(), nn.Linear(16, 12), nn.Sigmoid(), nn.Linear(12, CLASSES)
        self.network = nn.Sequential(*layers).double().eval().requires_grad_(requires_grad=False)
        for parameter in self.network.parameters():
            parameter.copy_(draws.normal(*parameter.shape))
        self.images, self.labels = draws.uniform(TRIALS, *SHAPE), draws.integers(0, CLASSES, TRIALS, SHAPE[0])
        self.shares = draws.uniform(TRIALS, STEPS)
        self.rates = 2 * MEAN * self.shares if rates is None else rates
        self.samples = Samples(SHAPE, CLASSES, self.labels)
        self.targets = F.one_hot(self.labels, CLASSES).double()
        self.delta = list(simulated_delta(self.network, self.images, self.targets, self.rates, steps).values())


@pytest.fixture(scope="module")
def case():
    return Case()


@pytest.mark.parametrize("steps", [LocalSteps(), LocalSteps(0.5, 1e-2), LocalSteps(order=torch.tensor([[0], [1]] * 2))])
@pytest.mark.parametrize("distance", DISTANCES)
def test_f1_nominal_matching_vanishes_at_the_truth_under_the_true_rates(distance, steps):
    undefended = Case(MEANS.expand(TRIALS, -1), steps)
    loss = DeltaMatching(undefended.network, undefended.delta, undefended.samples, MEANS, distance, steps)
    value, derivative = loss(undefended.images.flatten(1), ROWS)
    assert value.abs().max() < 1e-10
    assert derivative.abs().max() < 1e-10


@pytest.mark.parametrize("distance", DISTANCES)
def test_f1_joint_rates_vanish_at_the_true_rates_and_nowhere_else(case, distance):
    loss = JointRates(case.network, case.delta, case.samples, MEANS, distance)
    images, truth = case.images.flatten(1), torch.log(case.rates / MEANS)
    value, derivative = loss(torch.cat([images, truth], 1), ROWS)
    assert value.abs().max() < 1e-10
    assert derivative.abs().max() < 1e-10
    swapped, _ = loss(torch.cat([images, truth.roll(1, 0)], 1), ROWS)
    assert swapped.min() > 1e-4


@pytest.mark.parametrize("distance", DISTANCES)
def test_nominal_matching_has_no_zero_at_the_truth_under_perturbed_rates(case, distance):
    loss = DeltaMatching(case.network, case.delta, case.samples, MEANS, distance)
    assert loss(case.images.flatten(1), ROWS)[0].min() > 1e-4


def test_unknown_rates_are_positive_and_have_no_upper_bound(case):
    """The factor p_k N on all of a client's rates is withheld: no interval holds them."""
    loss = LOSSES["joint rates"](case)
    numbers = torch.tensor([[-30.0, 0.0, 3.0, 30.0]], dtype=torch.float64)
    rates = loss.local_rates(numbers)[0]
    assert 0 < rates[0] < 1e-9
    assert float(rates[1]) == pytest.approx(MEAN)
    assert 2 * MEAN < rates[2] < rates[3]
    assert rates[3] > 1e6 * MEAN


def test_f1_the_surrogate_of_one_step_vanishes_at_the_broadcast_weights():
    one = Case(MEANS[:1].expand(TRIALS, -1))
    loss = Surrogate(one.network, one.delta, one.samples, penalty=0.0)
    value, derivative = loss(torch.cat([one.images.flatten(1), torch.full((TRIALS, 1), -40.0)], 1).double(), ROWS)
    assert value.abs().max() < 1e-10
    assert derivative.abs().max() < 1e-10


def test_a_place_between_the_weights_is_better_than_either_end():
    """The midpoint rule: the gradient half way is the mean gradient up to third order."""
    small = Case(MEANS.expand(TRIALS, -1))
    loss = Surrogate(small.network, small.delta, small.samples, penalty=0.0)
    start, middle, end = (
        loss(torch.cat([small.images.flatten(1), torch.full((TRIALS, 1), place).double()], 1), ROWS)[0]
        for place in (-40.0, 0.0, 40.0)
    )
    assert (middle < 0.1 * start).all()
    assert (middle < 0.1 * end).all()


def test_f6_the_surrogate_sees_the_direction_only(case):
    """A factor s on the delta is a place a / s: at the broadcast weights it changes nothing at all."""
    images = case.images.flatten(1)

    def value(factor, place):
        loss = Surrogate(case.network, [factor * delta for delta in case.delta], case.samples, penalty=0.0)
        number = torch.logit(torch.tensor(place, dtype=torch.float64)).expand(TRIALS, 1)
        return loss(torch.cat([images + 0.1, number], 1), ROWS)[0]

    for factor in (0.1, 0.5, 4.0):
        assert torch.allclose(value(factor, 0.2), value(1.0, 0.2 * factor), rtol=0, atol=1e-9)
        assert torch.allclose(value(factor, 1e-15), value(1.0, 1e-15), rtol=0, atol=1e-9)


def test_the_surrogates_penalty_is_a_parabola_around_the_middle(case):
    point = torch.cat([case.images.flatten(1), torch.full((TRIALS, 1), 2.0)], 1).double()
    losses = [Surrogate(case.network, case.delta, case.samples, penalty) for penalty in (0.0, 0.003)]
    free, kept = (loss(point, ROWS)[0] for loss in losses)
    expected = 3 * (torch.sigmoid(point[:, -1]) - 0.5) ** 2
    assert torch.allclose(kept - free, expected, rtol=1e-9)


def test_one_step_is_gradient_matching():
    one = Case(MEANS[:1].expand(TRIALS, -1))
    gradients = [-delta / MEAN for delta in one.delta]
    points = stream(1, "points").uniform(TRIALS, one.samples.pixels)
    for distance in DISTANCES:
        theirs = Inversion(one.network, gradients, SHAPE, CLASSES, distance, one.labels)(points, ROWS)
        ours = DeltaMatching(one.network, one.delta, one.samples, MEANS[:1], distance)(points, ROWS)
        for mine, other in zip(ours, theirs, strict=True):
            assert torch.allclose(mine, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_derivatives_equal_finite_differences(case, name):
    loss, draws = LOSSES[name](case), stream(2, "points")
    points, along = draws.uniform(TRIALS, loss.unknowns), draws.normal(TRIALS, loss.unknowns)
    numerical = (loss(points + 1e-5 * along, ROWS)[0] - loss(points - 1e-5 * along, ROWS)[0]) / 2e-5
    assert torch.allclose((loss(points, ROWS)[1] * along).sum(1), numerical, rtol=1e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_a_trial_does_not_depend_on_the_others(case, name):
    loss = LOSSES[name](case)
    points, some = stream(2, "points").uniform(TRIALS, loss.unknowns), torch.tensor([2, 0])
    together, alone = loss(points, ROWS), loss(points[some], some)
    for whole, part in zip(together, alone, strict=True):
        assert torch.allclose(part, whole[some], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_the_loss_of_nothing_is_finite_and_above_that_of_the_truth(case, name):
    loss = LOSSES[name](case)
    others = torch.zeros(TRIALS, loss.unknowns - case.samples.pixels)
    truth = loss(torch.cat([case.images.flatten(1), others], 1).double(), ROWS)[0]
    assert (loss.loss_of_nothing() > truth).all()
    assert loss.loss_of_nothing().isfinite().all()


@pytest.mark.parametrize("name", LOSSES)
def test_an_observation_that_is_not_finite_is_refused(case, name):
    broken = Case()
    broken.delta[0][1, 0, 0] = torch.inf
    with pytest.raises(UserError, match="not finite"):
        LOSSES[name](broken)


@pytest.mark.parametrize("name", LOSSES)
def test_the_update_of_another_network_is_refused(case, name):
    broken = Case()
    broken.delta = broken.delta[:-1]
    with pytest.raises(UserError, match="not of this network"):
        LOSSES[name](broken)


@pytest.mark.parametrize("rates", [MEANS[:0], MEANS[None], -MEANS, 0 * MEANS, torch.inf * MEANS])
def test_impossible_rates_are_refused(case, rates):
    with pytest.raises(UserError, match="rate of every local step"):
        DeltaMatching(case.network, case.delta, case.samples, rates, squared_l2)


def test_a_batch_order_for_another_number_of_steps_is_refused(case):
    loss = LOSSES["nominal"](case, steps=LocalSteps(order=torch.tensor([[0], [1]])))
    with pytest.raises(UserError, match="batch order for 4 steps"):
        loss(case.images.flatten(1), ROWS)


def test_labels_that_do_not_fit_the_batch_are_refused(case):
    with pytest.raises(UserError, match="do not fit 2 samples"):
        Samples(SHAPE, CLASSES, case.labels[:, :1])
