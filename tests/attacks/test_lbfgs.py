"""The batched optimiser walks the path of ``torch.optim.LBFGS``, each trial its own."""

import pytest
import torch

from leaklab.attacks.search.lbfgs import BatchedLbfgs, LbfgsSettings
from leaklab.records.streams import stream

UNKNOWNS = 40


def problem(trial):
    draws = stream(3, "problem", trial)
    matrix = draws.normal(UNKNOWNS, UNKNOWNS) / UNKNOWNS**0.5

    def value(point):
        return torch.log(torch.cosh(matrix @ point)).sum() + 0.1 * (point**2).sum() + 0.05 * torch.sin(3 * point).sum()

    # the first is solved at once, the last starts far away and is still wandering after 20 iterations
    return value, draws.normal(UNKNOWNS) * (1e-8, 1.0, 1.0, 3.0)[trial]


def evaluate(values, points):
    points = points.clone().requires_grad_()
    losses = torch.stack([value(point) for value, point in zip(values, points, strict=True)])
    return losses.detach(), torch.autograd.grad(losses.sum(), points)[0]


def ours(values, starts, settings, outer):
    """Points after ``outer`` outer steps; a trial stops where ``torch.optim.LBFGS`` would return."""
    optimiser = BatchedLbfgs(starts, settings)
    points = starts.clone()
    while True:
        points = torch.where((optimiser.outer < outer)[:, None], optimiser.point, points)
        losses, gradients = evaluate(values, optimiser.point)
        optimiser.advance(losses, gradients, (optimiser.outer < outer) & ~optimiser.stalled)
        if bool(((optimiser.outer >= outer) | optimiser.stalled).all()):
            return points


def theirs(value, start, settings, outer):
    point = start.clone().requires_grad_()
    optimiser = torch.optim.LBFGS([point], lr=settings.rate, history_size=settings.history, max_iter=settings.max_iter)

    def closure():
        optimiser.zero_grad()
        loss = value(point)
        loss.backward()
        return loss

    for _ in range(outer):
        optimiser.step(closure)
    return point.detach()


def rounded(start, number):
    """Return the start with each coordinate a rounding smaller, larger or as it was."""
    signs = stream(3, "rounding", number).integers(-1, 2, len(start)).to(start.dtype)
    return start * (1 + torch.finfo(start.dtype).eps * signs)


@pytest.mark.parametrize("history", [3, 10, 100])
@pytest.mark.parametrize(("max_iter", "outer"), [(20, 1), (4, 5)])
def test_follows_torch_for_twenty_iterations(history, max_iter, outer):
    values, starts = zip(*(problem(trial) for trial in range(4)), strict=True)
    settings = LbfgsSettings(history=history, max_iter=max_iter)
    found = ours(values, torch.stack(starts), settings, outer)
    for trial, (value, start) in enumerate(zip(values, starts, strict=True)):
        expected = theirs(value, start, settings, outer)
        # the last problem multiplies a rounding by millions: torch differs as much from itself
        others = [theirs(value, rounded(start, number), settings, outer) for number in range(8)]
        own = max(float((other - expected).abs().max()) for other in others)
        assert own < 1e-6
        assert torch.allclose(found[trial], expected, rtol=0, atol=max(1e-12, own))


def test_outer_steps_that_a_tolerance_ends_are_counted_like_torch_ends_them():
    value, start = problem(1)
    settings = LbfgsSettings()
    for outer in (2, 3, 6):
        found = ours([value], start[None], settings, outer)
        assert torch.allclose(found[0], theirs(value, start, settings, outer), rtol=0, atol=1e-9)


def test_a_solved_problem_stalls_and_does_not_move():
    optimiser = BatchedLbfgs(torch.zeros(1, UNKNOWNS, dtype=torch.float64), LbfgsSettings())
    optimiser.advance(torch.zeros(1), torch.zeros(1, UNKNOWNS, dtype=torch.float64), torch.tensor([True]))
    assert optimiser.stalled.all()
    assert (optimiser.point == 0).all()


def test_restarting_and_dropping_rows_leaves_the_others_alone():
    values, starts = zip(*(problem(trial) for trial in range(4)), strict=True)
    alone, mixed = (BatchedLbfgs(s, LbfgsSettings(history=5)) for s in (starts[2][None], torch.stack(starts)))
    rows = [0, 1, 2, 3]
    for turn in range(18):
        if turn == 7:
            mixed.restart(torch.tensor([1]), starts[1][None])
        if turn == 11:
            mixed.keep(torch.tensor([1, 2]))
            rows = [1, 2]
        mixed.advance(*evaluate([values[row] for row in rows], mixed.point), torch.ones(len(rows), dtype=torch.bool))
        alone.advance(*evaluate([values[2]], alone.point), torch.tensor([True]))
    assert torch.allclose(mixed.point[rows.index(2)], alone.point[0], rtol=0, atol=1e-10)
    assert torch.allclose(mixed.point[0], _after(values[1], starts[1], 11), rtol=0, atol=1e-10)


def _after(value, start, turns):
    optimiser = BatchedLbfgs(start[None], LbfgsSettings(history=5))
    for _ in range(turns):
        optimiser.advance(*evaluate([value], optimiser.point), torch.tensor([True]))
    return optimiser.point[0]
