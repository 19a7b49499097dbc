"""CMA-ES and Adam over many trials: they find known minima, alone as in company, and touch no global generator."""

import numpy as np
import pytest
import torch

from leaklab.attacks.search.latent import AdamSettings, CmaSettings, adam_search, cma_search
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

TARGETS = torch.linspace(-0.6, 0.6, 5 * 4, dtype=torch.float64).view(5, 4)
PLAIN = CmaSettings(generations=60, restarts=2, population=10, squash=False)


def bowl(points, rows):
    """An ill-scaled bowl around each trial's own target."""
    scales = torch.tensor([1.0, 3.0, 10.0, 30.0], dtype=points.dtype)
    return (((points - TARGETS[rows].to(points)) * scales) ** 2).sum(1)


def evaluate(points, rows):
    return bowl(points, rows), points


def starts(trials):
    return lambda row, start: stream(0, "start", trials[row], start).normal(4)


def cma_of(trials, settings=PLAIN, function=evaluate, seed=0):
    chosen = torch.tensor(trials)
    return cma_search(
        lambda points, rows: function(points, chosen[rows]),
        starts(trials),
        lambda row, start: stream(seed, "cma", trials[row], start),
        len(trials),
        settings,
    )


def test_each_trial_finds_its_own_minimum():
    found = cma_of(range(5))
    assert found.points.shape == (5, 2, 4)
    assert float(found.losses.max()) < 1e-3
    assert torch.allclose(found.points[torch.arange(5), found.chosen()], TARGETS, atol=0.02)
    assert torch.equal(found.losses, bowl(found.points.flatten(0, 1), torch.arange(5).repeat_interleave(2)).view(5, 2))
    assert [(r.trial, r.start) for r in found.records] == [(t, s) for t in range(5) for s in range(2)]
    assert {(r.iterations, r.evaluations, r.stopped) for r in found.records} == {(60, 600, "budget")}


def test_a_trial_does_not_depend_on_its_neighbours_or_on_the_number_of_restarts():
    together, alone = cma_of(range(5)), cma_of([3])
    assert torch.equal(together.points[3], alone.points[0])
    assert torch.equal(together.losses[3], alone.losses[0])
    one = cma_of([3], CmaSettings(60, 1, 10, squash=False))
    assert torch.equal(alone.points[0, 0], one.points[0, 0])


def test_all_candidates_of_a_generation_are_evaluated_at_once():
    sizes = []

    def counted(points, rows):
        sizes.append(len(points))
        return evaluate(points, rows)

    cma_of(range(5), CmaSettings(3, 2, 10), counted)
    assert sizes == [5 * 2 * 10] * 3


def test_the_global_generators_neither_matter_nor_move():
    results = []
    for seed in (1, 2):
        np.random.seed(seed)  # noqa: NPY002
        torch.manual_seed(seed)
        before = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
        results.append(cma_of([0, 1]))
        assert np.array_equal(before[0], np.random.get_state()[1])  # noqa: NPY002
        assert torch.equal(before[1], torch.get_rng_state())
    assert torch.equal(results[0].points, results[1].points)
    assert not torch.equal(results[0].points, cma_of([0, 1], seed=1).points)


def test_a_squashed_latent_stays_inside_even_if_the_minimum_is_outside():
    def far(points, rows):
        return ((points - 2) ** 2).sum(1), points

    inside = cma_of([0], CmaSettings(60, 1, 10, squash=True), far).points
    outside = cma_of([0], CmaSettings(60, 1, 10, squash=False), far).points
    assert float(inside.min()) > 0.99
    assert float(inside.max()) <= 1
    assert torch.allclose(outside, torch.full_like(outside, 2), atol=0.01)


def test_only_the_order_of_the_losses_matters():
    plain = cma_of([0, 1])
    scaled = cma_of([0, 1], function=lambda points, rows: (4 * bowl(points, rows), points))
    assert torch.equal(plain.points, scaled.points)
    assert torch.equal(4 * plain.losses, scaled.losses)


def test_what_a_local_search_reached_is_kept():
    def polished(points, rows):
        return torch.zeros(len(points)) + bowl(points, rows) * 1e-6, TARGETS[rows]

    found = cma_of([0, 1], function=polished)
    assert torch.equal(found.points[:, 0], TARGETS[:2])


def test_losses_that_are_not_finite_come_last_and_end_only_their_own_start():
    def holes(points, rows):
        # a third of all candidates, wherever the search is; all those of trial 1
        hole = (torch.sin(40 * points[:, 0]) > 0.5) | (rows == 1)
        return torch.where(hole, torch.nan, bowl(points, rows)), points

    found = cma_of([0, 1], CmaSettings(20, 2, 10, squash=False), holes)
    assert [r.stopped for r in found.records] == ["budget", "budget", "diverged", "diverged"]
    assert [r.iterations for r in found.records] == [20, 20, 1, 1]
    assert found.losses[1].isinf().all()
    assert bool(found.points.isfinite().all())
    begun = bowl(torch.stack([starts([0])(0, start) for start in range(2)]), torch.zeros(2, dtype=torch.int64))
    assert bool((found.losses[0] < 0.1 * begun).all())


def test_a_flat_loss_ends_as_stagnated():
    found = cma_of([0], CmaSettings(500, 1, 10), lambda points, rows: (0 * points.sum(1), points))
    assert found.records[0].stopped == "stagnated"
    assert found.records[0].iterations < 500


def objective_of(trials):
    chosen = torch.tensor(trials)

    def objective(points, rows):
        points = points.detach().requires_grad_()
        values = bowl(points, chosen[rows])
        return values.detach(), torch.autograd.grad(values.sum(), points)[0]

    return objective


def test_adam_finds_the_minima_and_keeps_trials_apart():
    settings = AdamSettings(iterations=300, restarts=2)
    found = adam_search(objective_of(range(5)), starts(range(5)), 5, settings)
    assert torch.allclose(found.points, TARGETS[:, None].expand(5, 2, 4), atol=1e-2)
    assert {(r.iterations, r.evaluations, r.stopped) for r in found.records} == {(300, 301, "budget")}
    alone = adam_search(objective_of([3]), starts([3]), 1, settings)
    assert torch.equal(found.points[3], alone.points[0])


def test_adam_keeps_the_best_finite_point_of_a_start_that_diverges():
    calls = []

    def poison(points, rows):
        calls.append(1)
        losses, derivative = objective_of(range(2))(points, rows)
        return torch.where((rows == 1) & (len(calls) > 3), torch.nan, losses), derivative

    found = adam_search(poison, starts(range(2)), 2, AdamSettings(20))
    assert [(r.stopped, r.evaluations) for r in found.records] == [("budget", 21), ("diverged", 4)]
    assert bool(found.losses.isfinite().all())
    assert torch.equal(found.points[0], adam_search(objective_of([0]), starts([0]), 1, AdamSettings(20)).points[0])


@pytest.mark.parametrize(
    "make",
    [
        lambda: CmaSettings(0),
        lambda: CmaSettings(1, restarts=0),
        lambda: CmaSettings(1, population=3),
        lambda: CmaSettings(1, sigma=0.0),
        lambda: CmaSettings(1, sigma=float("nan")),
        lambda: AdamSettings(0),
        lambda: AdamSettings(1, restarts=0),
        lambda: AdamSettings(1, rate=-1.0),
    ],
)
def test_a_search_that_cannot_run_is_refused(make):
    with pytest.raises(UserError):
        make()


@pytest.mark.parametrize("first", [torch.zeros(1), torch.zeros(2, 2), torch.tensor([0.0, torch.nan])])
def test_unusable_starts_are_refused(first):
    with pytest.raises(UserError, match="finite starts"):
        cma_search(evaluate, lambda row, start: first, lambda row, start: stream(0), 1, PLAIN)
