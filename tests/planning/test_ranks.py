"""Priorities: what is behind a job, and who goes first."""

import pytest

from leaklab.items.items import load_items
from leaklab.planning.devices import RESULT, Device, Ranks
from leaklab.planning.plan import build_plan


@pytest.fixture(scope="module")
def plan():
    return build_plan(load_items(), ["small"])


def test_a_job_goes_before_all_that_read_it_and_by_as_much_as_it_takes(plan):
    device = Device()
    ranks = Ranks(plan, device)
    waited_for = 0
    for stage, jobs in plan.jobs.items():
        for name, job in jobs.items():
            assert 0 < ranks.of(stage, name) < RESULT
            for read in job.read_runs:
                waited_for += 1
                assert ranks.of(*read) >= ranks.of(stage, name)
                ahead = device.seconds(plan.job(*read).spec) / 60
                assert ranks.of(*read) - ranks.of(stage, name) > ahead - 1
    assert waited_for > 1000


def test_a_data_set_goes_as_early_as_its_first_reader(plan):
    ranks = Ranks(plan, Device())
    name = next(iter(sorted(plan.datasets)))
    reading = [(s, n) for s, jobs in plan.jobs.items() for n, job in jobs.items() if job.dataset == name]
    assert ranks.of_dataset(name) == max(ranks.of(*key) for key in reading)
    assert ranks.of_dataset("nobody's") == 0


def test_a_device_on_which_attacks_are_slow_puts_what_leads_to_them_first(plan):
    usual, slow = (Ranks(plan, Device(factors=factors)) for factors in ({}, {"attack/x/y": 50.0}))
    attacked = next(name for name, job in plan.jobs["attack"].items() if job.spec.generator is None)
    (capture,) = [read for read in plan.job("attack", attacked).read_runs if read[0] == "capture"]
    assert slow.of(*capture) > usual.of(*capture)
