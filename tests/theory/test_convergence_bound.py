"""The check of the theorem on a small task: what it emits, and whether it could fail."""

import math

import numpy as np
import pytest

from leaklab.records.errors import UserError
from leaklab.theory import convergence_bound
from leaklab.theory.convergence_bound import ConvergenceBound, declared_steps, slope_of_second_half

SMALL = {"clients": 4, "participants": 2, "local_steps": 3, "steps": 300, "repeats": 4, "samples": 6, "features": 3}


def plain(items, total, label):
    return items


def numbers(seed=0, **changes):
    return list(ConvergenceBound(**{**SMALL, "classes": 3, "series": True, **changes}).run(seed, None, plain))


def series(found, metric):
    return [one.value for one in found if one.metric == metric and one.index is not None]


@pytest.fixture(scope="module")
def found():
    return numbers()


def test_every_series_has_a_value_at_every_declared_step(found):
    steps = series(found, "step")
    assert steps == declared_steps(300).tolist()
    for metric in ("gap", "bound_printed", "bound_corrected", "bound_tight"):
        assert len(series(found, metric)) == len(steps)
        places = [one.index for one in found if one.metric == metric and one.index is not None]
        assert places == list(range(len(steps)))


def test_rows_name_the_setting(found):
    assert all({**one.row, "T": 0} == {"N": 4, "K": 2, "E": 3, "perturbation": True, "T": 0} for one in found)


def test_gaps_are_positive_means_over_the_repetitions(found):
    gaps = [one for one in found if one.metric == "gap" and one.index is not None]
    assert all(one.value > 0 and one.std > 0 and one.n == 4 for one in gaps)
    assert gaps[-1].value < 0.05 * gaps[0].value


def test_bounds_are_ordered_as_their_constants_are(found):
    forms = [series(found, f"bound_{name}") for name in ("tight", "printed", "corrected")]
    assert all(a < b < c for a, b, c in zip(*forms, strict=True))


def test_the_largest_ratio_is_at_least_that_of_the_declared_steps(found):
    (largest,) = (one.value for one in found if one.metric == "largest_gap_over_bound_corrected")
    shown = [g / b for g, b in zip(series(found, "gap"), series(found, "bound_corrected"), strict=True)]
    assert max(shown) <= largest < 1


def test_a_gap_above_the_bound_would_be_seen(monkeypatch):
    """Were the bound a thousand thousand times smaller, the check would say that it does not hold."""
    small = {name: lambda c, t, b=bound: 1e-6 * b(c, t) for name, bound in convergence_bound.BOUNDS.items()}
    monkeypatch.setattr(convergence_bound, "BOUNDS", small)
    assert all(one.value > 1 for one in numbers() if one.metric.startswith("largest_gap_over"))


def test_a_curve_by_its_steps_is_the_series(found):
    """Of several settings one is a series; the others' curves carry T, so that no claim mixes them up."""
    by_step = {one.row["T"]: one.value for one in found if one.metric == "bound_tight" and "T" in one.row}
    assert [float(step) for step in by_step] == series(found, "step")
    assert list(by_step.values()) == series(found, "bound_tight")


def test_all_but_the_series_is_the_same_without_it(found):
    short = numbers(series=False)
    assert short == [one for one in found if one.index is None]
    assert {one.metric for one in short} >= {"kappa", "heterogeneity", "gradient_square", "gap_slope", "last_gap"}


def test_the_seed_decides_everything(found):
    assert numbers() == found
    assert series(numbers(seed=1), "gap") != series(found, "gap")


def test_fixed_rates_have_the_smaller_bound():
    fixed = {one.metric: one.value for one in numbers(perturbation=False) if one.index == 0}
    assert fixed["bound_tight"] == fixed["bound_corrected"]


def test_slope_of_a_power_law():
    steps = declared_steps(10_000)
    assert slope_of_second_half(steps, 3.0 * steps**-1.5) == pytest.approx(-1.5)
    assert slope_of_second_half(steps, np.where(steps < 50, 1.0, 7.0 / steps)) == pytest.approx(-1)


def test_declared_steps_are_spread_over_the_decades():
    steps = declared_steps(10_000)
    assert (steps[0], steps[-1]) == (1, 10_000)
    assert 75 <= len(steps) <= 100
    assert np.all(np.diff(steps) > 0)
    assert np.sum(steps > 1000) == pytest.approx(25, abs=1)
    assert math.isclose(steps[-1] / steps[-2], 10 ** (4 / 99), rel_tol=1e-3)


@pytest.mark.parametrize("changes", [{"participants": 5}, {"local_steps": 0}, {"ridge": 0.0}, {"repeats": 1}])
def test_settings_that_make_no_sense_are_refused(changes):
    with pytest.raises(UserError, match="convergence-bound: needs"):
        numbers(**changes)
