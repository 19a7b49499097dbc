"""The theorem for unequal shares on drawn and on exact descents: what is emitted, and whether it could fail."""

import math

import pytest
import torch

from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.theory import unequal_bound
from leaklab.theory.convergence_bound import ConvergenceBound
from leaklab.theory.unequal_bound import UnequalBound, UnequalQuadratics

torch.set_num_threads(1)
SMALL = {"clients": 4, "participants": 2, "local_steps": 3, "steps": 300, "repeats": 4, "samples": 6, "features": 3}
EXACT = {"clients": 5, "participants": 3, "local_steps": 2, "problems": 12, "steps": 200}
FORMS = ("bound_printed", "bound_corrected", "bound_tight")


def plain(items, total, label):
    return items


def numbers(**changes):
    return list(UnequalBound(**{**SMALL, "classes": 3, **changes}).run(0, None, plain))


def exact(**changes):
    return {one.metric: one for one in UnequalQuadratics(**{**EXACT, **changes}).run(0, None, plain)}


def value(found, metric):
    (one,) = (one for one in found if one.metric == metric and "T" not in one.row)
    return one.value


@pytest.fixture(scope="module")
def found():
    return numbers(ratio=9.0)


def test_equal_shares_give_the_numbers_of_the_balanced_check():
    """Same draws, same task, same bounds: the theorem for unequal shares contains the balanced one."""
    balanced = list(ConvergenceBound(**{**SMALL, "classes": 3}).run(0, None, plain))
    equal = numbers(ratio=1.0)
    for metric in ("largest_gap_over_bound_printed", "largest_gap_over_bound_tight", "gap_slope", "last_gap"):
        assert value(equal, metric) == pytest.approx(value(balanced, metric), rel=1e-6)
    ours, theirs = ([one.value for one in them if one.metric == "bound_corrected"] for them in (equal, balanced))
    assert ours == pytest.approx(theirs, rel=1e-6)
    assert value(equal, "square_over_replaced") == pytest.approx(1)


def test_rows_name_the_setting_and_the_step(found):
    own = {"task": "softmax", "shares": "9", "K": 2, "E": 3, "scaled": True}
    assert all({**one.row, "T": 0} == {**own, "T": 0} for one in found)
    assert {one.row["T"] for one in found if "T" in one.row} >= {1, 300}


def test_the_gap_of_the_weighted_loss_falls_and_stays_below_each_bound(found):
    gaps = [one for one in found if one.metric == "gap"]
    assert all(one.value > 0 and one.n == 4 for one in gaps)
    assert gaps[-1].value < 0.2 * gaps[0].value
    assert all(0 < value(found, f"largest_gap_over_{form}") < 1 for form in FORMS)


def test_the_root_of_nu_bounds_no_large_client(found):
    """The largest client has N p = nu; its squared gradient is scaled by nu^2, and nu is allowed."""
    assert 1 < value(found, "square_over_replaced") <= value(found, "nu") * (1 + 1e-9)


def test_without_the_scaling_the_weighted_optimum_is_missed(found):
    unscaled = numbers(ratio=9.0, scaled=False)
    assert value(unscaled, "last_gap") > 3 * value(found, "last_gap")
    assert value(unscaled, "gap_slope") > value(found, "gap_slope") / 2
    assert value(unscaled, "nu") == value(found, "nu")


def test_exact_descents_stay_below_each_bound():
    known = exact()
    assert all(0 < known[f"largest_gap_over_{form}"].value < 1 for form in FORMS)
    assert 1 < known["square_over_replaced"].value <= known["nu"].value
    assert known["nu"].value > 2 > 0.5 > known["varsigma"].value
    assert all(one.row == {"task": "quadratics", "shares": "drawn", "K": 3, "E": 2, "scaled": True}
               for one in known.values())  # fmt: skip
    assert not any(math.isnan(one.value) for one in known.values())


@pytest.mark.parametrize("run", [lambda: {one.metric: one for one in numbers()}, exact])
def test_a_gap_above_the_bound_would_be_seen(monkeypatch, run):
    small = {name: lambda *given, b=bound: 1e-8 * b(*given) for name, bound in unequal_bound.BOUNDS.items()}
    monkeypatch.setattr(unequal_bound, "BOUNDS", small)
    assert all(run()[f"largest_gap_over_{form}"].value > 1 for form in FORMS)


@pytest.mark.parametrize("changes", [{"participants": 5}, {"repeats": 1}, {"steps": 2}])
def test_settings_that_make_no_sense_are_refused(changes):
    with pytest.raises(UserError, match="unequal-bound: needs"):
        numbers(**changes)


def test_more_participants_than_clients_are_refused_for_quadratics_too():
    with pytest.raises(UserError, match="unequal-quadratics: needs"):
        exact(participants=6)


@pytest.mark.parametrize("changes", [{"ratio": 0.0}, {"scaled": 1}])
def test_settings_out_of_range_are_refused_before_anything_runs(changes):
    with pytest.raises(UserError):
        plugins.check("theory", "unequal-bound", changes)
