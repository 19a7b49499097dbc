"""Descent by L-BFGS with backtracking: where minima are known, that it never climbs, and that problems do not mix."""

import pytest
import torch
from scipy.optimize import minimize

from leaklab.attacks.search.backtracking import MOST_FAILURES, BacktrackingLbfgs, descend
from leaklab.records.streams import stream

UNKNOWNS, TRIALS = 30, 4


class Objective:
    """Losses of some problems, given as functions of one point, and their derivatives by autograd."""

    def __init__(self, *losses):
        self.losses, self.seen = losses, []

    def __call__(self, points, rows):
        points = points.detach().requires_grad_()
        values = torch.stack([self.losses[row](point) for row, point in zip(rows.tolist(), points, strict=True)])
        self.seen.append(values.detach())
        return values.detach(), torch.autograd.grad(values.sum(), points)[0]


def quadratic(number, condition):
    """1 + 1/2 (x - m)' A (x - m), the eigenvalues of A from 1 to ``condition``; and m."""
    draws = stream(0, "quadratic", number)
    basis = torch.linalg.qr(draws.normal(UNKNOWNS, UNKNOWNS))[0]
    matrix = basis @ torch.diag(torch.logspace(0, torch.tensor(condition).log10(), UNKNOWNS).double()) @ basis.T
    minimum = draws.normal(UNKNOWNS)
    return lambda x: 1 + 0.5 * (x - minimum) @ matrix @ (x - minimum), minimum


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def run(losses, start, evaluations, history=40):
    rows = torch.arange(len(losses))
    return descend(Objective(*losses), start, rows, evaluations, history)


@pytest.mark.parametrize("condition", [1.0, 100.0, 1e4])
def test_quadratics_end_in_their_closed_form(condition):
    losses, minima = zip(*(quadratic(number, condition) for number in range(TRIALS)), strict=True)
    found = run(losses, torch.zeros(TRIALS, UNKNOWNS).double(), 500)
    assert torch.allclose(found.points, torch.stack(minima), atol=1e-5)
    assert float(found.losses.max()) < 1 + 1e-10


def test_it_ends_where_nothing_is_to_be_gained():
    found = run([quadratic(0, 10.0)[0]], torch.zeros(1, UNKNOWNS).double(), 500)
    assert bool(found.stalled)
    assert int(found.evaluations) < 100


def test_a_curved_valley_ends_where_scipy_ends():
    start = stream(1, "start").uniform(2, 10)
    found = run([rosenbrock, rosenbrock], start, 300)
    for row in range(2):
        theirs = minimize(
            lambda x: rosenbrock(torch.tensor(x)).item(), start[row].numpy(), method="L-BFGS-B", options={"ftol": 1e-15}
        )
        assert torch.allclose(found.points[row], torch.tensor(theirs.x), atol=1e-3)
        assert float(found.losses[row]) < 1e-12


def test_no_step_is_taken_that_does_not_lower_the_loss():
    objective, rows = Objective(rosenbrock), torch.zeros(1, dtype=torch.int64)
    optimiser = BacktrackingLbfgs(torch.full((1, 10), -1.5).double(), 5)
    kept = [torch.tensor([torch.inf])]
    while not bool(optimiser.stalled.any()) and len(kept) < 200:
        optimiser.advance(*objective(optimiser.point, rows), ~optimiser.stalled)
        kept.append(optimiser.best_loss)
    assert bool((torch.cat(kept).diff() <= 0).all())
    tried = torch.cat(objective.seen)
    assert bool((tried.diff() > 0).any()), "no step had to be shortened: the test tests nothing"
    assert torch.equal(objective(optimiser.best, rows)[0], optimiser.best_loss)


def test_the_first_step_is_no_longer_than_one():
    objective = Objective(lambda x: 1e6 * (x**2).sum())
    optimiser = BacktrackingLbfgs(torch.full((1, 9), 10.0).double(), 5)
    before = optimiser.point.clone()
    optimiser.advance(*objective(before, torch.zeros(1, dtype=torch.int64)), torch.tensor([True]))
    assert float((optimiser.point - before).norm()) == pytest.approx(1)


def test_a_problem_does_not_depend_on_its_neighbours():
    losses, _ = zip(*(quadratic(number, 1e4) for number in range(TRIALS)), strict=True)
    start = stream(2, "start").normal(TRIALS, UNKNOWNS)
    together, alone = run(losses, start, 25), run(losses[1:2], start[1:2], 25)
    assert torch.allclose(together.points[1], alone.points[0], rtol=1e-9, atol=1e-12)
    assert together.evaluations.tolist() == [26] * TRIALS


def test_what_is_not_finite_stays_at_its_start_and_stops_nobody_else():
    loss, minimum = quadratic(0, 10.0)
    start = torch.zeros(2, UNKNOWNS).double()
    found = run([lambda x: (x * torch.nan).sum(), loss], start, 100)
    assert torch.equal(found.points[0], start[0])
    assert (float(found.losses[0]), int(found.iterations[0]), int(found.evaluations[0])) == (torch.inf, 0, 1)
    assert torch.allclose(found.points[1], minimum, atol=1e-6)


def test_a_loss_that_cannot_fall_along_its_slope_is_left():
    found = run([lambda x: x.sum() - 2 * (x - x.detach()).sum()], torch.zeros(1, 3).double(), 100)
    assert bool(found.stalled)
    assert int(found.evaluations) == 1 + MOST_FAILURES
    assert torch.equal(found.points, torch.zeros(1, 3).double())


def test_rows_can_be_dropped_and_begun_anew():
    losses, minima = zip(*(quadratic(number, 10.0) for number in range(3)), strict=True)
    objective = Objective(*losses)
    optimiser = BacktrackingLbfgs(torch.zeros(3, UNKNOWNS).double(), 10)

    def advance(rows, times):
        for _ in range(times):
            optimiser.advance(*objective(optimiser.point, rows), ~optimiser.stalled)

    advance(torch.arange(3), 5)
    optimiser.keep(torch.tensor([0, 2]))
    optimiser.restart(torch.tensor([1]), torch.ones(1, UNKNOWNS).double())
    advance(torch.tensor([0, 1]), 60)
    assert torch.allclose(optimiser.best, torch.stack(minima[:2]), atol=1e-6)
