"""The sketch of client drift: closed forms of the paths, and what it must show."""

import pytest
import torch

from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.theory.drift_sketch import DriftSketch, Losses, random_pairs, sketch

torch.set_num_threads(1)


def plain(items, total, label):
    return items


def numbers(**settings):
    return list(DriftSketch(**settings).run(0, None, plain))


def path(found, **row):
    return [[one.value for one in found if one.metric == axis and one.row == row] for axis in "xy"]


def angles(found):
    return {one.row["rates"]: one.value for one in found if one.metric == "angle"}


@pytest.fixture(scope="module")
def found():
    return numbers()


def test_adapted_rates_bring_the_sketch_nearer_to_the_direction_of_the_optimum(found):
    by_kind = angles(found)
    assert 0 < by_kind["adapted"] < by_kind["equal"] < 90


def test_paths_follow_the_closed_form():
    """w_t - c = (I - rate A)^t (w_0 - c)."""
    losses = random_pairs(stream(0, "pairs"), 5)
    rates = torch.tensor([[0.1, 0.3]], dtype=torch.float64).expand(5, -1)
    points = losses.paths(rates, 3)
    for pair in range(5):
        for client in range(2):
            shrink = torch.eye(2, dtype=torch.float64) - rates[pair, client] * losses.curvatures[pair, client]
            away = torch.linalg.matrix_power(shrink, 3) @ (losses.start[pair] - losses.optima[pair, client])
            torch.testing.assert_close(points[pair, client, 3], losses.optima[pair, client] + away)
    assert torch.equal(points[:, 0, 0], losses.start)


def test_the_common_optimum_has_no_slope():
    losses = random_pairs(stream(1, "pairs"), 50)
    away = (losses.common.unsqueeze(1) - losses.optima).unsqueeze(-1)
    assert float((losses.curvatures @ away).sum(1).abs().max()) < 1e-10


def test_the_average_lies_between_the_clients_and_starts_with_them(found):
    for kind in ("equal", "adapted"):
        first, second, mean = (path(found, rates=kind, path=name) for name in ("client-1", "client-2", "average"))
        assert all(len(axis) == 4 for axis in (*first, *second, *mean))
        for a, b, c in zip(first, second, mean, strict=True):
            assert c == pytest.approx([(x + y) / 2 for x, y in zip(a, b, strict=True)])
        straight = path(found, rates=kind, path="optimum")
        assert [axis[0] for axis in straight] == [axis[0] for axis in mean]
        single = {one.metric: one.value for one in found if one.metric.startswith("optimum")}
        assert [axis[1] for axis in straight] == [single["optimum_x"], single["optimum_y"]]


def test_the_larger_rate_goes_to_the_client_whose_optimum_is_nearer():
    losses = sketch()
    away = (losses.optima - losses.common.unsqueeze(1)).norm(dim=-1)[0]
    rates = losses.adapted(0.4, 0.5)[0]
    assert rates.tolist() == pytest.approx([0.6, 0.2])
    assert away[0] < away[1]


def test_angle_of_a_known_update():
    """Flat losses pull along the axes: equal curvature and rate make the mean update point at the optimum."""
    flat = torch.eye(2, dtype=torch.float64).expand(1, 2, 2, 2)
    optima = torch.tensor([[[2.0, 0.0], [0.0, 2.0]]], dtype=torch.float64)
    losses = Losses(optima, flat, torch.zeros(1, 2, dtype=torch.float64))
    even, odd = torch.tensor([[[0.1, 0.1]], [[0.1, 0.0]]], dtype=torch.float64)
    assert float(losses.angles(even, 3)) == pytest.approx(0, abs=1e-10)
    assert float(losses.angles(odd, 3)) == pytest.approx(45)


def test_tiny_equal_steps_do_not_drift():
    """One gradient step of the mean loss is a step down the mean loss; isotropic losses then point at the optimum."""
    assert angles(numbers(steps=1, rate=1e-3, pairs=1))["equal"] == pytest.approx(0, abs=1e-6)


def test_random_pairs_do_not_diverge_and_are_counted(found):
    losses = random_pairs(stream(0, "pairs"), 200)
    values = torch.linalg.eigvalsh(losses.curvatures)
    assert float(values.min()) > 0
    assert float(values.max()) <= 2 + 1e-12
    (share,) = (one for one in found if one.metric == "share_of_pairs_turned_less")
    assert 0 < share.value < 1
    assert share.n == 10_000


@pytest.mark.parametrize("settings", [{"advantage": 1.0}, {"steps": 0}, {"rate": 0.0}])
def test_settings_outside_their_range_are_refused(settings):
    with pytest.raises(UserError, match="drift-sketch: needs"):
        numbers(**settings)
