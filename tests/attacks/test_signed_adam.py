"""Signed Adam against torch's own Adam; starts, divergence and the isolation of trials."""

from dataclasses import replace

import pytest
import torch

from leaklab.attacks.search.priors import Box
from leaklab.attacks.search.signed_adam import SignedAdamSettings, signed_adam
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

SIZE = 12
SETTINGS = SignedAdamSettings(iterations=16, restarts=1, box=None)


def start_of(row, start):
    return stream(0, "start", row, start).normal(SIZE)


def bowl(points, rows):
    """Convex, its minimum at 0.3 for every unknown and trial."""
    return ((points - 0.3) ** 2).sum(1), 2 * (points - 0.3)


def wavy(points, rows):
    """Different for every trial, not convex."""
    phase = 1.0 + rows.to(points.dtype)[:, None]
    return (torch.cos(3 * points + phase) + points**2 / 5).sum(1), -3 * torch.sin(3 * points + phase) + 2 * points / 5


def torch_adam(objective, row, settings):
    """One start by torch: Adam on the signs, clamped, with MultiStepLR; returns the best point and loss."""
    project = settings.box.project if settings.box else lambda points: points
    rows, point = torch.tensor([row]), project(start_of(row, 0)[None]).clone()
    adam = torch.optim.Adam([point.requires_grad_()], lr=settings.rate)
    milestones = [settings.iterations * eighths // 8 for eighths in (3, 5, 7)]
    schedule = torch.optim.lr_scheduler.MultiStepLR(adam, milestones, gamma=0.1)
    best, best_loss = point.detach().clone(), float("inf")
    for _ in range(settings.iterations + 1):
        loss, derivative = objective(point.detach(), rows)
        if float(loss) < best_loss:
            best, best_loss = point.detach().clone(), float(loss)
        point.grad = derivative.sign() if settings.signed else derivative
        adam.step()
        schedule.step()
        point.data = project(point.data)
    return best[0], best_loss


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("box", [None, Box(), Box(-0.5, 0.5)])
def test_it_is_torchs_adam_on_signs(box, signed):
    settings = replace(SETTINGS, box=box, signed=signed)
    result = signed_adam(wavy, start_of, 3, settings)
    for row in range(3):
        best, loss = torch_adam(wavy, row, settings)
        assert torch.equal(result.points[row, 0], best)
        assert float(result.losses[row, 0]) == loss


def test_a_step_before_the_decay_has_the_size_of_the_rate():
    first = signed_adam(bowl, lambda row, start: torch.zeros(SIZE), 1, replace(SETTINGS, iterations=1))
    assert torch.allclose(first.points, torch.full((1, 1, SIZE), 0.1))


def test_the_rate_falls_by_ten_after_3_5_and_7_eighths():
    seen = []

    def slope(points, rows):
        seen.append(float(points[0, 0]))
        return points.sum(1), torch.ones_like(points)

    signed_adam(slope, start_of, 1, SETTINGS)
    lengths = -torch.tensor(seen).diff()
    assert torch.allclose(lengths, torch.tensor([0.1] * 6 + [0.01] * 4 + [0.001] * 4 + [0.0001] * 2), atol=1e-6)


def test_a_convex_problem_is_solved():
    result = signed_adam(bowl, start_of, 4, replace(SETTINGS, iterations=400, box=Box()))
    assert (result.points - 0.3).abs().max() < 1e-3
    assert [record.stopped for record in result.records] == ["budget"] * 4


def test_every_point_is_in_the_box():
    def look(points, rows):
        assert points.min() >= 0
        assert points.max() <= 0.2
        return bowl(points, rows)

    result = signed_adam(look, start_of, 2, replace(SETTINGS, box=Box(0.0, 0.2)))
    assert torch.allclose(result.points, torch.full((2, 1, SIZE), 0.2, dtype=torch.float64))


def test_a_trial_does_not_depend_on_its_neighbours_nor_a_start_on_the_others():
    many = signed_adam(wavy, start_of, 4, replace(SETTINGS, restarts=3))
    one = signed_adam(
        lambda points, rows: wavy(points, rows + 2), lambda row, start: start_of(row + 2, start), 1, SETTINGS
    )
    assert torch.equal(many.points[2, 0], one.points[0, 0])
    assert torch.equal(many.points[:, :1], signed_adam(wavy, start_of, 4, SETTINGS).points)
    assert not torch.equal(many.points[:, 0], many.points[:, 1])


def test_same_starts_same_bytes_and_records():
    first, second = (signed_adam(wavy, start_of, 3, replace(SETTINGS, restarts=2)) for _ in range(2))
    assert torch.equal(first.points, second.points)
    assert first.records == second.records
    assert [(record.trial, record.start) for record in first.records] == [(t, s) for t in range(3) for s in range(2)]
    assert {(record.iterations, record.evaluations) for record in first.records} == {(16, 17)}
    assert first.losses.flatten().tolist() == [record.matching_loss for record in first.records]


@pytest.mark.parametrize("poisoned", ["loss", "derivative"])
def test_a_diverging_start_ends_alone_with_its_best_point(poisoned):
    calls = [0]

    def poison(points, rows):
        loss, derivative = bowl(points, rows)
        calls[0] += 1
        bad = (rows == 1) & (calls[0] == 4)
        if poisoned == "loss":
            return torch.where(bad, torch.nan, loss), derivative
        return loss, torch.where(bad[:, None], torch.inf, derivative)

    result, healthy = signed_adam(poison, start_of, 3, SETTINGS), signed_adam(bowl, start_of, 3, SETTINGS)
    assert [record.stopped for record in result.records] == ["budget", "diverged", "budget"]
    assert [record.diverged for record in result.records] == [False, True, False]
    assert (result.records[1].iterations, result.records[1].evaluations) == (3, 4)
    assert torch.equal(result.points[[0, 2]], healthy.points[[0, 2]])
    shorter = signed_adam(bowl, start_of, 3, replace(SETTINGS, iterations=2, decay=1.0))
    assert torch.equal(result.points[1], shorter.points[1])


def test_a_start_that_is_never_finite_has_an_infinite_loss():
    result = signed_adam(lambda points, rows: (points.sum(1) * torch.nan, points), start_of, 2, SETTINGS)
    assert result.losses.isinf().all()
    assert [record.stopped for record in result.records] == ["diverged"] * 2
    assert torch.equal(result.points[1, 0], start_of(1, 0))


def test_the_best_point_is_kept_and_not_the_last():
    def leap(points, rows):
        return torch.cos(40 * points).sum(1), -40 * torch.sin(40 * points)

    result = signed_adam(leap, start_of, 2, replace(SETTINGS, iterations=5))
    assert torch.equal(leap(result.points[:, 0], None)[0], result.losses[:, 0])


@pytest.mark.parametrize(
    ("setting", "word"),
    [({"iterations": 0}, "iterations"), ({"restarts": 0}, "restarts"), ({"rate": 0.0}, "rate"),
     ({"rate": float("nan")}, "rate"), ({"decay": 0.0}, "decay"), ({"decay": 2.0}, "decay")],
)  # fmt: skip
def test_settings_that_make_no_sense(setting, word):
    with pytest.raises(UserError, match=word):
        replace(SETTINGS, **setting)


def test_no_trials():
    with pytest.raises(UserError, match="trial"):
        signed_adam(bowl, start_of, 0, SETTINGS)
