"""Closed forms of the task against autograd, and its constants against the Hessian."""

import pytest
import torch
from torch.autograd.functional import hessian, jacobian

from leaklab.records.streams import stream
from leaklab.theory.tasks import client, made_up, optimum, pooled

torch.set_num_threads(1)
PROBLEM = made_up(3, clients=3, samples=6, features=4, classes=3, ridge=0.2)
POINTS = stream(1, "points").normal(2, 3, 4, 3)


def slow_loss(problem, place, weights):
    """The loss of one client by torch's cross-entropy."""
    logits = problem.features[place] @ weights
    entropy = torch.nn.functional.cross_entropy(logits, problem.labels[place].argmax(-1))
    return entropy + problem.ridge / 2 * (weights**2).sum()


def every_pair():
    return [(repeat, place) for repeat in range(2) for place in range(3)]


def test_losses_are_those_of_the_library():
    losses = PROBLEM.losses(POINTS)
    for repeat, place in every_pair():
        assert losses[repeat, place] == pytest.approx(
            float(slow_loss(PROBLEM, place, POINTS[repeat, place])), rel=1e-12
        )


def test_gradients_are_those_of_autograd():
    gradients = PROBLEM.gradients(POINTS)
    for repeat, place in every_pair():
        expected = jacobian(lambda w, place=place: slow_loss(PROBLEM, place, w), POINTS[repeat, place])
        torch.testing.assert_close(gradients[repeat, place], expected, rtol=1e-12, atol=1e-14)


def test_a_samples_gradient_and_its_mean_square_are_those_of_autograd():
    residuals = PROBLEM.residuals(PROBLEM.features @ POINTS)
    squares = PROBLEM.gradient_squares(PROBLEM.features @ POINTS, residuals, POINTS)
    found = [PROBLEM.sample_gradients(residuals, POINTS, torch.full((2, 3), place)) for place in range(6)]
    for repeat, place in every_pair():
        single = [_single(place, sample) for sample in range(6)]
        each = [jacobian(lambda w, one=one: slow_loss(one, 0, w), POINTS[repeat, place]) for one in single]
        for sample, expected in enumerate(each):
            torch.testing.assert_close(found[sample][repeat, place], expected, rtol=1e-12, atol=1e-14)
        mean = torch.stack([one.square().sum() for one in each]).mean()
        assert squares[repeat, place] == pytest.approx(float(mean), rel=1e-12)


def _single(place, sample):
    alone = client(PROBLEM, place)
    return type(alone)(alone.features[:, [sample]], alone.labels[:, [sample]], alone.ridge)


def test_curvature_lies_between_the_ridge_and_the_smoothness():
    values = [
        torch.linalg.eigvalsh(
            hessian(lambda w, place=place: slow_loss(PROBLEM, place, w.reshape(4, 3)), POINTS[repeat, place].flatten())
        )
        for repeat, place in every_pair()
    ]
    assert min(float(v.min()) for v in values) >= PROBLEM.ridge - 1e-12
    assert max(float(v.max()) for v in values) <= PROBLEM.smoothness


def test_the_smoothness_is_reached_by_two_undecided_classes():
    """p = (1/2, 1/2) has the softmax Hessian's largest eigenvalue 1/2: at W = 0 two classes reach L exactly."""
    two = made_up(0, clients=1, samples=8, features=3, classes=2, ridge=0.2)
    flat = torch.zeros(6, dtype=torch.float64)
    curved = hessian(lambda w: slow_loss(two, 0, w.reshape(3, 2)), flat)
    assert float(torch.linalg.eigvalsh(curved).max()) == pytest.approx(two.smoothness, rel=1e-12)


def test_the_optimum_is_one():
    weights, loss = optimum(pooled(PROBLEM))
    assert float(pooled(PROBLEM).gradients(weights).abs().max()) < 1e-7
    assert loss == pytest.approx(float(PROBLEM.losses(weights).mean()), rel=1e-12)
    near = weights + 1e-3 * stream(0, "near").normal(20, 1, 4, 3)
    assert bool((PROBLEM.losses(near).mean(-1) > loss).all())


def test_clients_differ():
    """Each holds two neighboring classes, so no client's optimum is the common one: Gamma is above zero."""
    assert PROBLEM.labels.sum(1).tolist() == [[3, 3, 0], [0, 3, 3], [3, 0, 3]]
    own = sum(optimum(client(PROBLEM, place))[1] for place in range(3)) / 3
    assert optimum(pooled(PROBLEM))[1] - own > 0.01


def test_features_are_no_longer_than_one():
    assert float(PROBLEM.features.square().sum(-1).max()) == pytest.approx(1, rel=1e-12)
