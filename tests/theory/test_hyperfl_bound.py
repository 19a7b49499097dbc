"""The check of HyperFL's theorem on a small task: what it emits, that its constants hold, and whether it could fail."""

import pytest
import torch

from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.theory import hyperfl_bound
from leaklab.theory.generated_descent import Constants, descend
from leaklab.theory.hyperfl_bound import HyperFLBound, kept, slope

torch.set_num_threads(1)
SMALL = {"clients": 2, "steps": 120, "points": 4, "repeats": 2, "samples": 4, "units": 2, "hidden": 2}


def plain(items, total, label):
    return items


def numbers(**changes):
    return list(HyperFLBound(**{**SMALL, "local_steps": 1, "series": True, **changes}).run(0, None, plain))


def series(found, metric):
    return [one.value for one in found if one.metric == metric and one.index is not None]


def value(found, metric):
    (one,) = (one.value for one in found if one.metric == metric and "T" not in one.row and one.index is None)
    return one


@pytest.fixture(scope="module")
def found():
    return numbers()


def test_every_series_has_a_value_at_every_length(found):
    assert series(found, "steps") == HyperFLBound(**SMALL).lengths == [10, 23, 52, 120]
    for metric in ("mean_sq_grad", "mean_sq_grad_shared", "bound"):
        places = [one.index for one in found if one.metric == metric and one.index is not None]
        assert places == [0, 1, 2, 3]
        by_length = [one.value for one in found if one.metric == metric and "T" in one.row and one.index is None]
        assert by_length == series(found, metric)


def test_the_runs_keep_the_constants_that_their_rates_were_made_for(found):
    """The whole check once more with the constants that it gave: no run meets larger ones."""
    check = HyperFLBound(**SMALL, local_steps=1)
    its = Constants(value(found, "smoothness"), value(found, "gradient_square"), value(found, "first_gap"), 1)
    way = descend(check._task(0), check.lengths, [its.rates(length) for length in check.lengths], plain, "")
    assert kept(its, way)
    assert way.own.mean(1).tolist() == pytest.approx(series(found, "mean_sq_grad"), rel=1e-12)
    assert [its.bound(length) for length in check.lengths] == series(found, "bound")


def test_constants_that_are_too_small_are_raised(monkeypatch, found):
    """A start that looks a hundred times flatter than it is gives larger rates, and is found out."""
    true_start = hyperfl_bound.start_of

    def flat(task):
        seen = true_start(task)
        return hyperfl_bound.replace(seen, smoothness=seen.smoothness / 100, gradient_square=seen.gradient_square / 100)

    monkeypatch.setattr(hyperfl_bound, "start_of", flat)
    again = numbers()
    assert value(again, "smoothness") > 0.5 * value(found, "smoothness")
    assert value(again, "gradient_square") > 0.5 * value(found, "gradient_square")


def test_constants_that_no_pass_keeps_end_the_check(monkeypatch):
    monkeypatch.setattr(hyperfl_bound, "kept", lambda constants, way: False)
    monkeypatch.setattr(hyperfl_bound, "MOST_PASSES", 2)
    with pytest.raises(ArithmeticError, match="in each of 2 passes"):
        numbers(steps=20, points=3)


def test_with_one_local_step_gradients_fall_and_the_bound_like_one_over_the_root(found):
    assert value(found, "slope_bound") == pytest.approx(-0.5, abs=0.01)
    assert value(found, "slope_measured") < -0.05
    assert value(found, "largest_over_bound") < 1


def test_with_several_the_bound_says_nothing(found):
    several = numbers(local_steps=5)
    assert value(several, "last_bound_over_assumed") > 1
    assert value(several, "slope_bound") > -0.1
    bare = numbers(local_steps=5, drift=False)
    assert value(bare, "slope_bound") == pytest.approx(-0.5, abs=0.01)
    rows = {tuple(sorted({k: v for k, v in one.row.items() if k != "T"}.items())) for one in several + bare}
    assert rows == {(("E", 5), ("condition", "printed")), (("E", 5), ("condition", "without-drift"))}


def test_a_mean_above_the_bound_would_be_seen(monkeypatch):
    monkeypatch.setattr(Constants, "bound", lambda self, steps: 1e-9)
    assert value(numbers(), "largest_over_bound") > 1


def test_all_but_the_series_is_the_same_without_it(found):
    assert numbers(series=False) == [one for one in found if one.index is None]


def test_the_slope_is_that_of_a_power_law():
    assert slope([10, 100, 1000], [3.0, 0.3, 0.03]) == pytest.approx(-1)


@pytest.mark.parametrize("changes", [{"repeats": 1}, {"points": 2}, {"samples": 1}, {"classes": 1}, {"steps": 19}])
def test_settings_that_make_no_sense_are_refused(changes):
    with pytest.raises(UserError, match="hyperfl-bound: needs"):
        numbers(**changes)


@pytest.mark.parametrize("changes", [{"clients": 0}, {"local_steps": 0}, {"drift": 1}, {"units": 0}])
def test_settings_out_of_range_are_refused_while_planning(changes):
    with pytest.raises(UserError, match="hyperfl-bound"):
        plugins.check("theory", "hyperfl-bound", changes)
