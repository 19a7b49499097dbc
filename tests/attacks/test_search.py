"""Restarts, stop rules and the isolation of trials."""

import pytest
import torch

from leaklab.attacks.search.lbfgs import LbfgsSettings
from leaklab.attacks.search.restarts import SearchSettings, search

SETTINGS = SearchSettings(iterations=50, restarts=3, matched=1e-9, accepted=1e-6, patience=3, improvement=0.01)
ONE = torch.ones(1, dtype=torch.float64)


def bowl(points, rows):
    """A convex bowl: the minimum 0 is found from anywhere."""
    return (points**2).sum(1), 2 * points


def run(objective, start_of, trials=1, settings=SETTINGS, scale=None):
    return search(objective, start_of, ONE.repeat(trials) if scale is None else scale, settings, LbfgsSettings())


def constant(value):
    return lambda row, start: torch.full((4,), float(value), dtype=torch.float64)


def test_a_match_needs_no_other_start():
    result = run(bowl, constant(1))
    assert [record.stopped for record in result.records] == ["matched"]
    assert result.losses[0, 0] < 1e-9
    assert result.losses[0, 1:].isinf().all()
    assert result.points[0, result.chosen()[0]].abs().max() < 1e-4


def test_starts_are_tried_in_order_until_one_is_accepted():
    def plateau(points, rows):
        # flat and bad left of zero
        good = points[:, :1] > 0
        loss = torch.where(good[:, 0], ((points - 1) ** 2).sum(1), 5.0 + 0 * points[:, 0])
        return loss, torch.where(good, 2 * (points - 1), 0 * points)

    result = run(plateau, lambda row, start: constant((-2, 3, 4)[start])(row, start))
    assert [(record.start, record.stopped) for record in result.records] == [(0, "stagnated"), (1, "matched")]
    assert result.chosen().tolist() == [1]
    assert float(result.losses[0, 0]) == 5.0


def test_a_diverging_trial_stops_alone_and_is_recorded():
    def poison(points, rows):
        loss, gradient = bowl(points, rows)
        calls[0] += 1
        bad = (rows == 1) & (calls[0] == 2)
        return torch.where(bad, torch.nan, loss), gradient

    calls = [0]
    with_poison = run(poison, constant(1), trials=3, settings=SearchSettings(50, 1, 1e-9, 1e-6, 3, 0.01))
    assert [record.stopped for record in with_poison.records] == ["matched", "diverged", "matched"]
    assert with_poison.records[1].diverged
    assert float(with_poison.losses[1, 0]) == 4.0  # the best finite point is kept
    assert torch.equal(with_poison.points[[0, 2]], run(bowl, constant(1), trials=2).points[:, :1])


def test_a_start_that_is_never_finite_has_an_infinite_loss():
    result = run(lambda points, rows: (points.sum(1) * torch.nan, points), constant(1))
    assert result.losses.isinf().all()
    assert [record.stopped for record in result.records] == ["diverged"] * 3


def test_the_budget_counts_outer_steps():
    def slope(points, rows):
        return -points.sum(1) + 1e6, -torch.ones_like(points)

    result = run(slope, constant(1), settings=SearchSettings(4, 1, 1e-9, 1e-6, 1000, 0.01))
    (record,) = result.records
    assert (record.stopped, record.iterations) == ("budget", 4)
    assert record.evaluations == 4 * LbfgsSettings().max_iter + 1


def test_a_zero_update_is_matched_by_nothing():
    result = run(lambda points, rows: (0 * points.sum(1), 0 * points), constant(1), scale=0 * ONE)
    assert [record.stopped for record in result.records] == ["stagnated"]


def test_losses_are_relative_to_the_scale():
    start = run(bowl, constant(1), scale=ONE * 1e12)
    assert start.records[0].stopped == "matched"
    assert start.records[0].evaluations == 1


def test_a_trial_does_not_depend_on_its_neighbours(digits, observe, network_of):
    """The same few iterations, alone and in company: fp64 rounding only (it grows chaotically later)."""
    from leaklab.attacks.matching.distances import squared_l2
    from leaklab.attacks.matching.inversion import Inversion
    from leaklab.records.streams import stream

    images, labels = digits[0][:4, None], digits[1][:4, None]
    observed = list(observe(images, labels).update.values())
    network = network_of().requires_grad_(requires_grad=False)
    few = SearchSettings(iterations=1, restarts=1, matched=0, accepted=0, patience=99, improvement=0)

    def points_of(trials):
        inversion = Inversion(network, [value[trials] for value in observed], (1, 1, 8, 8), 10, squared_l2, None)
        starts = lambda row, start: stream(0, trials[row], start).normal(inversion.unknowns)  # noqa: E731
        return run(inversion, starts, len(trials), few, inversion.loss_of_nothing()).points[:, 0]

    assert torch.allclose(points_of([0, 1, 2, 3])[2], points_of([2])[0], rtol=0, atol=1e-8)


def test_the_best_point_is_kept_and_not_the_last():
    def leap(points, rows):
        return torch.cos(3 * points).sum(1) + 0.01 * (points**2).sum(1), -3 * torch.sin(3 * points) + 0.02 * points

    result = run(leap, constant(0.3), settings=SearchSettings(3, 1, -1e9, -1e9, 99, 0.01))
    assert float(leap(result.points[0], None)[0][0]) == pytest.approx(float(result.losses[0, 0]))
