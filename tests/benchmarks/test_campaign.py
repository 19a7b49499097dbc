"""Schedules of known length, and the tasks of a real plan."""

import pytest
from campaign.schedule import bounds, makespan
from campaign.tasks import Task, tasks_of

from leaklab.items.items import load_items
from leaklab.planning.devices import Device
from leaklab.planning.plan import build_plan


def test_a_chain_takes_its_length_whatever_the_workers():
    chain = {"a": Task(2.0), "b": Task(3.0, ("a",)), "c": Task(4.0, ("b",))}
    assert [makespan(chain, workers) for workers in (1, 8)] == [9.0, 9.0]
    assert bounds(chain).ideal(8) == 9.0


@pytest.mark.parametrize(("workers", "wanted"), [(1, 70.0), (2, 40.0), (3, 30.0), (7, 10.0), (9, 10.0)])
def test_equal_tasks_go_in_rows(workers, wanted):
    tasks = {str(number): Task(10.0) for number in range(7)}
    assert makespan(tasks, workers) == makespan(tasks, workers, longest_first=True) == wanted


def test_a_fork_is_joined_by_its_slowest_branch():
    tasks = {"a": Task(1.0), "b": Task(5.0, ("a",)), "c": Task(2.0, ("a",)), "d": Task(1.0, ("b", "c"))}
    assert (makespan(tasks, 1), makespan(tasks, 2)) == (9.0, 7.0)


def test_a_queue_that_begins_with_short_tasks_ends_with_a_long_one_alone():
    tasks = {**{str(number): Task(1.0) for number in range(4)}, "first": Task(1.0), "long": Task(4.0, ("first",))}
    assert makespan(tasks, 2) == 7.0
    assert makespan(tasks, 2, longest_first=True) == bounds(tasks).ideal(2) == 5.0


def test_every_task_of_a_plan_comes_after_what_it_needs_and_all_work_is_in_it():
    plan, device = build_plan(load_items(), ["paper"]), Device()
    tasks = tasks_of(plan, "paper", device)
    seen = set()
    for name, task in tasks.items():
        assert set(task.needs) <= seen
        seen.add(name)
    jobs = {f"{job.folder.parts[-2]}/{job.name}": job for item in plan.ready("paper")
            for job in plan.jobs_of("paper", item)}  # fmt: skip
    assert bounds(tasks).work == pytest.approx(sum(device.seconds(job.spec) for job in jobs.values()))
    assert len(tasks) > len(jobs)
