"""HyperFL's steps, stacked over lengths, repetitions and clients, against a plain loop of one client after another."""

import pytest
import torch
import torch.nn.functional as F

from leaklab.records.streams import stream
from leaklab.theory.generated_descent import Task, descend, start_of
from leaklab.theory.tasks import GROUPS, Sizes, first_values, made_up, slopes

torch.set_num_threads(1)
SIZES = Sizes(features=3, classes=3, units=2, hidden=3, embedding=2)
REPEATS, CLIENTS, SAMPLES, LENGTHS = 2, 3, 5, [3, 7, 16]
RATES = [
    {"head": 0.3, "hypernetwork": 0.5, "embedding": 0.2},
    *2 * [{"head": 0.1, "hypernetwork": 0.2, "embedding": 0.4}],
]


def task(local_steps):
    data = made_up(0, CLIENTS, SAMPLES, SIZES.features, SIZES.classes, 0.0)
    return Task(data.features, data.labels, first_values(2, SIZES, REPEATS, CLIENTS), 2, local_steps)


def plain(items, total, label):
    return items


def loss_of(own, features, label):
    u = torch.tanh(F.linear(own["v"], own["w"], own["b"]))
    logits = F.linear(torch.tanh(F.linear(features, own["a"] @ u + own["c"])), own["p"], own["q"])
    return F.cross_entropy(logits, label)


def moved(own, group, rate, features, label):
    leaves = {name: own[name].clone().requires_grad_() for name in GROUPS[group]}
    found = torch.autograd.grad(loss_of({**own, **leaves}, features, label), list(leaves.values()))
    return {name: own[name] - rate * value for name, value in zip(leaves, found, strict=True)}


def by_hand(its, length, rates, repeat):
    """Return the two means of one run, and the largest squares, step after step and client after client."""
    clients = [{name: value[repeat, k].clone() for name, value in its.start.items()} for k in range(CLIENTS)]
    draws = stream(its.seed, "generated", repeat, "samples")
    own_sum = shared_sum = 0.0
    largest = 0.0
    for step in range(length):
        exact = [slopes(own, its.features[k], its.labels[k]) for k, own in enumerate(clients)]
        largest = max(largest, *(float(square) for one in exact for square in one.squares.values()))
        mean = {name: sum(one.gradients[name] for one in exact) / CLIENTS for name in GROUPS["hypernetwork"]}
        for one in exact:
            own_sum += sum(float(value.square().sum()) for value in one.gradients.values()) / CLIENTS
            both = {**one.gradients, **mean}
            shared_sum += sum(float(value.square().sum()) for value in both.values()) / CLIENTS
        chosen = draws.integers(0, SAMPLES, CLIENTS).tolist()
        for k, own in enumerate(clients):
            x, y = its.features[k, chosen[k]], its.labels[k, chosen[k]].argmax()
            own |= moved(own, "head", rates["head"], x, y)
            own |= {
                **moved(own, "hypernetwork", rates["hypernetwork"], x, y),
                **moved(own, "embedding", rates["embedding"], x, y),
            }
        if (step + 1) % its.local_steps == 0:
            for name in GROUPS["hypernetwork"]:
                average = sum(own[name] for own in clients) / CLIENTS
                for own in clients:
                    own[name] = average
    return own_sum / length, shared_sum / length, largest


@pytest.mark.parametrize("local_steps", [1, 3])
def test_all_runs_together_are_the_loops_of_each(local_steps):
    its = task(local_steps)
    way = descend(its, LENGTHS, RATES, plain, "")
    largest = 0.0
    for place, length in enumerate(LENGTHS):
        for repeat in range(REPEATS):
            own, shared, square = by_hand(its, length, RATES[place], repeat)
            assert float(way.own[place, repeat]) == pytest.approx(own, rel=1e-11)
            assert float(way.shared[place, repeat]) == pytest.approx(shared, rel=1e-11)
            largest = max(largest, square)
    assert way.gradient_square == pytest.approx(largest, rel=1e-11)
    assert way.smoothness >= start_of(its).smoothness


def test_the_shared_gradient_is_never_larger():
    """The mean of vectors is shorter than they are in the mean square; equal only where clients agree."""
    way = descend(task(1), LENGTHS, RATES, plain, "")
    assert bool((way.shared < way.own).all())


def test_before_the_first_step_all_is_that_of_the_start():
    its = task(1)
    one = descend(its, [1, 2, 3], [{"head": 0.0, "hypernetwork": 0.0, "embedding": 0.0}] * 3, plain, "")
    first = start_of(its)
    torch.testing.assert_close(one.own, first.own.expand_as(one.own), rtol=1e-12, atol=0)
    assert one.smoothness == pytest.approx(first.smoothness, rel=1e-12)
    assert one.gradient_square == pytest.approx(first.gradient_square, rel=1e-12)
