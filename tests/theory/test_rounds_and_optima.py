"""What theorem 1 says of the number of local steps, and how far clients' optima lie apart by their classes."""

from dataclasses import replace

import pytest
import torch

from leaklab.records import plugins
from leaklab.theory.convergence import corrected
from leaklab.theory.convergence_bound import ConvergenceBound
from leaklab.theory.drift_sketch import OptimaByClasses, RoundsBySteps
from leaklab.theory.tasks import made_up

torch.set_num_threads(1)
SHORT = {"steps": 60, "repeats": 3}


def plain(items, total, label):
    return items


def rounds(**settings):
    found = list(RoundsBySteps(**SHORT, **settings).run(0, None, plain))
    return {number.metric if number.row["E"] == "all" else number.row["E"]: number.value for number in found}


def test_after_the_rounds_the_bound_is_the_gap():
    known, _ = ConvergenceBound(local_steps=1, **SHORT).met(0, plain)
    found = rounds(gap=0.05, longest=16)
    assert [key for key in found if isinstance(key, int)] == [1, 2, 4, 8, 16]
    for steps in (1, 4, 16):
        at = replace(known, local_steps=steps)
        last = found[steps] * steps
        assert corrected(at, int(last) + 1) <= 0.05 <= corrected(at, int(last))


def test_rounds_are_a_hyperbola_whose_lowest_point_is_told():
    """As long as E is below 8 kappa, T is a polynomial of degree two in E: rounds are a / E + b + c E."""
    found = rounds(longest=16)
    assert found["off_hyperbola"] < 1e-9
    known, _ = ConvergenceBound(local_steps=1, **SHORT).met(0, plain)
    # three values of T = E * rounds give the polynomial
    t1, t2, t4 = found[1], 2 * found[2], 4 * found[4]
    bend = ((t4 - t2) / 2 - (t2 - t1)) / 3
    first = t1 - bend - ((t2 - t1) - 3 * bend)
    assert found["best_steps"] == pytest.approx((first / bend) ** 0.5)
    assert 8 * known.condition > 16


def test_clients_hold_as_many_classes_as_is_said():
    held = torch.tensor([1, 3, 5])
    labels = made_up(0, 3, 30, 4, 5, 0.1, held).labels
    assert (labels.sum(1) > 0).sum(1).tolist() == [1, 3, 5]
    two = made_up(0, 3, 30, 4, 5, 0.1)
    assert torch.equal(two.features, made_up(0, 3, 30, 4, 5, 0.1, torch.tensor([2, 2, 2])).features)


def test_optima_of_clients_with_all_classes_lie_nearest():
    check = OptimaByClasses(samples=20, features=6, classes=4)
    found = {number.row["classes"]: number for number in check.run(0, None, plain)}
    assert list(found) == [1, 2, 3, 4]
    assert found[4].value < found[1].value


@pytest.mark.parametrize("name", ["rounds-by-steps", "optima-by-classes", "drift-sketch"])
def test_the_checks_are_found_by_name(name):
    assert plugins.load("theory", name, {}) == plugins.load("theory", name, {})
