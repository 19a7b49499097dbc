"""Times of rounds: what is counted, and what HyperFL's fast form is there for."""

import pytest

from leaklab.records.errors import UserError
from leaklab.theory import times
from leaklab.theory.times import RoundTimes

SMALL = {"side": 16, "classes": 4, "clients": 2, "samples": 20, "batch_size": 10, "local_steps": 3, "warm_up": 1,
         "rounds": 2}  # fmt: skip


def run(**settings):
    found = list(RoundTimes(**{**SMALL, **settings}).run(0, None, lambda rows, total, label: rows))
    return {one.metric: one for one in found}


def test_a_step_is_a_part_of_a_round():
    found = run(algorithm="hyperfl", classifier_steps=2)
    assert found["seconds_per_round"].n == 2
    assert found["seconds_per_round"].value > 0
    assert found["client_step_milliseconds"].n == 2
    assert found["client_step_milliseconds"].value > 0


def test_clocks_are_read_between_the_rounds_that_count(monkeypatch):
    """A clock that goes on by one in each round: rounds last 1, of two clients with five steps each."""
    ticks = {"perf_counter": iter(range(100)), "process_time": iter(range(0, 1000, 10))}
    clock = type("Clock", (), {name: staticmethod(lambda name=name: next(ticks[name])) for name in ticks})
    monkeypatch.setattr(times, "time", clock)
    found = run(algorithm="hyperfl", classifier_steps=2, rounds=3)
    assert found["seconds_per_round"].value == 1
    assert found["seconds_per_round"].n == 3
    assert found["client_step_milliseconds"].value == pytest.approx(1e3 * 10 / (2 * (3 + 2)))


def test_bytes_are_those_of_the_message():
    extractor, classifier = 16 * 26 + 32 * (16 * 25 + 1) + 128 * (32 * 4 + 1), 129 * 4
    sent = {name: run(algorithm=name)["megabytes_sent"].value for name in ("fedavg", "hyperfl", "pfedhn", "local-only")}
    assert sent["fedavg"] == pytest.approx(4e-6 * (extractor + classifier))
    assert sent["hyperfl"] == pytest.approx(4e-6 * (129 * extractor + 128 * 65))
    assert sent["pfedhn"] == sent["fedavg"]
    assert sent["local-only"] == 0


def test_what_is_measured_with_a_clock_is_called_so():
    assert set(RoundTimes.traits.timed) == set(run()) - {"megabytes_sent"}


def test_settings_that_an_algorithm_does_not_have_are_refused():
    with pytest.raises(UserError, match="'fedavg' has no setting 'low_rank'"):
        run(low_rank=False)
