"""Times of local steps under a defense."""

import pytest

from leaklab.records.errors import UserError
from leaklab.theory.defense_times import DefenseTimes


def run(**settings):
    check = DefenseTimes(**{"side": 8, "batch_size": 4, "steps": 2, "repetitions": 3, **settings})
    return {(one.metric, one.index): one.value for one in check.run(0, None, lambda rows, total, label: rows)}


def test_a_pass_a_feature_is_slow_and_probes_are_not():
    slow, quick = (run(defense=name, side=28, steps=1)[("step_ratio", None)] for name in ("soteria", "soteria-probes"))
    assert slow > 20
    assert quick < slow / 2


def test_the_curve_is_that_of_so_many_steps():
    found = run(defense="outpost", points=4, steps_per_point=7)
    step = found[("step_seconds", None)]
    assert step > 0
    assert [found[("elapsed", place)] for place in range(4)] == pytest.approx(
        [7 * step * number for number in range(1, 5)]
    )
    assert found[("seconds", None)] == found[("elapsed", 3)]
    assert ("elapsed", 0) not in run()


def test_all_that_is_measured_is_called_so():
    assert {metric for metric, _ in run(points=2)} == set(DefenseTimes.timed)


def test_an_unknown_defense_is_refused():
    with pytest.raises(UserError, match="unknown defenses plug-in"):
        run(defense="wall")
