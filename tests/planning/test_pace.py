"""How long a call still takes: from what its jobs were expected to take, and what those that ended took."""

import pytest

from leaklab.planning.pace import LEAST_SECONDS, Pace


def test_nothing_is_told_before_it_can_be():
    pace = Pace({1: ("train", 10), 2: ("train", 10), 3: ("attack", 1000)}, 0)
    assert pace.left(100) is None
    pace.begins(1, 0)
    pace.ends(1, 20)
    assert pace.left(20) is None  # half of what remains is attacks, of which none has ended
    short = Pace({1: ("train", 1), 2: ("train", 1)}, 0)
    short.begins(1, 0)
    short.ends(1, 1)
    assert short.left(1) is None
    assert short.left(LEAST_SECONDS) is not None


def test_jobs_of_a_kind_take_as_much_longer_as_those_that_ended():
    pace = Pace({1: ("train", 10), 2: ("train", 10), 3: ("train", 30)}, 0)
    pace.begins(1, 0)
    assert pace.ends(1, 20) == 20
    assert pace.left(20) == pytest.approx(80)
    pace.begins(2, 20)
    assert pace.left(30) == pytest.approx(70)


def test_jobs_side_by_side_take_less_but_the_longest_is_waited_for():
    many = Pace(dict.fromkeys(range(10), ("train", 10)), 0)
    for number in range(4):
        many.begins(number, 0)
    for number in range(4):
        many.ends(number, 10)
    assert many.left(10) == pytest.approx(15)
    last = Pace({1: ("train", 10), 2: ("train", 10), 3: ("train", 90)}, 0)
    for number in (1, 2):
        last.begins(number, 0)
        last.ends(number, 10)
    last.begins(3, 10)
    assert last.left(10) == pytest.approx(90)
    assert last.left(60) == pytest.approx(40)
    assert last.left(500) == 0


def test_what_a_record_says_counts_where_jobs_waited_in_a_queue():
    pace = Pace({1: ("train", 10), 2: ("train", 10)}, 0)
    assert pace.ends(1, 1000, 20) == 20
    assert pace.left(1000) == pytest.approx(20)


def test_a_job_that_failed_is_no_measurement():
    pace = Pace({1: ("train", 10), 2: ("train", 10)}, 0)
    pace.begins(1, 0)
    pace.gives_up(1)
    assert pace.left(50) is None
    pace.begins(1, 50)
    assert pace.ends(1, 70) == 20
