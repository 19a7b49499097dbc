"""Schedules of the nominal rate."""

import pytest

from leaklab.records import plugins


def factors(name, rounds, **settings):
    schedule = plugins.load("federated/schedules", name, settings)
    return [schedule.factor(index, rounds) for index in range(rounds)]


def test_constant():
    assert factors("constant", 3) == [1, 1, 1]


def test_cosine_falls_from_one_towards_zero():
    values = factors("cosine", 100)
    assert values[0] == 1
    assert values[50] == pytest.approx(0.5)
    assert values == sorted(values, reverse=True)
    assert 0 < values[-1] < 1e-3


def test_inverse_is_the_schedule_of_the_paper():
    values = factors("inverse", 101)
    assert values[0] == 1
    assert values[50] == pytest.approx(1 / 2)
    assert values[100] == pytest.approx(1 / 3)
    assert factors("inverse", 11, half_life=10)[10] == pytest.approx(1 / 2)
