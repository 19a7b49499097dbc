"""Times of local steps under a defense."""

from itertools import count
from types import SimpleNamespace

import pytest

from leaklab.records.errors import UserError
from leaklab.theory import times
from leaklab.theory.times import DefenseTimes


def all_of(**settings):
    check = DefenseTimes(**{"side": 8, "batch_size": 4, "steps": 2, "repetitions": 3, **settings})
    return list(check.run(0, None, lambda rows, total, label: rows))


def run(**settings):
    return {(one.metric, one.index): one.value for one in all_of(**settings)}


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


def test_a_time_says_how_far_its_repetitions_lie_apart():
    numbers = all_of(points=2, steps_per_point=5)
    found = {(one.metric, one.index): one for one in numbers}
    assert all(one.n == 3 and one.std > 0 for one in numbers)
    assert found[("seconds", None)].std == pytest.approx(10 * found[("step_seconds", None)].std)
    assert found[("elapsed", 0)].std == pytest.approx(found[("seconds", None)].std / 2)
    (single, *_) = all_of(repetitions=1)
    assert (single.n, single.std) == (1, None)


def test_all_that_is_measured_is_called_so():
    assert {metric for metric, _ in run(points=2)} == set(DefenseTimes.traits.timed)


def test_each_repetition_is_another_round_of_as_many_steps_with_the_draws_of_that_round(monkeypatch):
    """What a defense does less often as a round goes on has to be timed over whole rounds, and over several of them."""
    seen = []

    def recorded(form, state, batches, contexts, defense, **more):
        seen.append((contexts[0].round, len(batches)))

    monkeypatch.setattr(times, "local_training", recorded)
    monkeypatch.setattr(times, "time", SimpleNamespace(perf_counter=count(1).__next__))
    run(defense="outpost", steps=7, repetitions=3)
    assert seen == [(0, 7)] * 2 + [(number, 7) for number in range(3) for _ in range(2)]


def test_an_unknown_defense_is_refused():
    with pytest.raises(UserError, match="unknown defenses plug-in"):
        run(defense="wall")
