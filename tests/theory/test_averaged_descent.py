"""The stacked descent against one that goes client by client."""

import pytest
import torch

from leaklab.theory.convergence import Plan, descend, draw
from leaklab.theory.tasks import client, made_up

torch.set_num_threads(1)
PROBLEM = made_up(0, clients=4, samples=5, features=3, classes=3, ridge=0.2)
STEPS, REPEATS = 13, 3
DRAWS = draw(7, PROBLEM, STEPS, REPEATS)


def plain(items, total, label):
    return items


def plan(**changes):
    given = {"participants": 2, "local_steps": 3, "perturbed": True, "steps": STEPS, "repeats": REPEATS}
    return Plan(**{**given, "rate": lambda step: 1.5 / (4 + step), **changes})


def first_entry(mean):
    return mean[:, 0, 0, 0]


def descended(**changes):
    return descend(PROBLEM, plan(**changes), DRAWS, first_entry, plain, "test")


def slow(plan, repeat):
    """One repetition, client by client, gradients by autograd; returns the means, squares and variances."""
    weights = [DRAWS.start[repeat, 0].clone() for _ in range(4)]
    means, squares, variances = [], [], []
    for step in range(1, plan.steps + 1):
        means.append(float(sum(weights)[0, 0] / 4))
        moved = []
        for place in range(4):
            each = [_gradient(place, sample, weights[place]) for sample in range(5)]
            whole = sum(each) / 5
            squares.append(float(sum((g**2).sum() for g in each) / 5))
            variances.append(float(sum(((g - whole) ** 2).sum() for g in each) / 5))
            rate = plan.rate(step) * (float(DRAWS.factors[repeat, step - 1, place]) if plan.perturbed else 1)
            moved.append(weights[place] - rate * each[int(DRAWS.samples[repeat, step - 1, place])])
        if (step + 1) % plan.local_steps == 0:
            chosen = DRAWS.order[repeat, step - 1, : plan.participants].tolist()
            moved = [sum(moved[k] for k in chosen) / len(chosen)] * 4
        weights = moved
    return means, squares, variances


def _gradient(place, sample, weights):
    point = weights.clone().requires_grad_()
    alone = client(PROBLEM, place)
    logits = alone.features[0, [sample]] @ point
    loss = torch.nn.functional.cross_entropy(logits, alone.labels[0, [sample]]) + 0.1 * (point**2).sum()
    return torch.autograd.grad(loss, point)[0]


@pytest.mark.parametrize("changes", [{}, {"perturbed": False}, {"participants": 4, "local_steps": 1}])
def test_every_repetition_goes_as_it_would_alone(changes):
    way = descended(**changes)
    oracles = [slow(plan(**changes), repeat) for repeat in range(REPEATS)]
    expected = torch.tensor([means for means, _, _ in oracles], dtype=torch.float64).T
    torch.testing.assert_close(way.means, expected, rtol=1e-10, atol=1e-12)
    assert way.gradient_square == pytest.approx(max(max(squares) for _, squares, _ in oracles), rel=1e-10)
    by_client = [max(max(variances[place::4]) for _, _, variances in oracles) for place in range(4)]
    assert way.variances.tolist() == pytest.approx(by_client, rel=1e-10)


def test_perturbation_changes_the_way():
    assert not torch.equal(descended().means[1:], descended(perturbed=False).means[1:])


def test_more_steps_and_more_repetitions_only_add_draws():
    more = draw(7, PROBLEM, STEPS + 5, REPEATS + 2)
    for name in ("samples", "factors", "order"):
        assert torch.equal(getattr(more, name)[:REPEATS, :STEPS], getattr(DRAWS, name))
    assert torch.equal(more.start[:REPEATS], DRAWS.start)


def test_draws_are_of_the_right_kind():
    many = draw(0, PROBLEM, 2000, 2)
    assert many.samples.unique().tolist() == list(range(5))
    assert float(many.factors.mean()) == pytest.approx(1, abs=0.02)
    assert float(many.factors.var()) == pytest.approx(1 / 3, rel=0.03)
    assert bool((many.order.sort(-1).values == torch.arange(4)).all())
    assert torch.bincount(many.order[..., 0].flatten()).min() > 900
