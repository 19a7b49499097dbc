"""A plan that finds nothing twice says what the plain one says."""

import pytest

from leaklab.items.items import load_items
from leaklab.planning.known_plan import KnownPlan
from leaklab.planning.missing import without_missing
from leaklab.planning.plan import build_plan
from leaklab.records.config import SCALES
from leaklab.specs.base import run_folder, run_id

SOME = ("lrp/table1", "lrp/table7", "lrp/figure12", "outpost/table4", "hyperfl/table2")


@pytest.fixture(scope="module")
def items():
    return {key: item for key, item in load_items().items() if key in SOME}


@pytest.fixture(scope="module")
def known(items):
    return KnownPlan.of(build_plan(items))


def same(one, other):
    assert one.datasets == other.datasets
    assert one.runs == other.runs
    assert {stage: list(jobs) for stage, jobs in one.jobs.items()} == {s: list(jobs) for s, jobs in other.jobs.items()}
    for scale, key in one.runs:
        jobs, others = (plan.jobs_of(scale, plan.items[key]) for plan in (one, other))
        assert [job.folder for job in jobs] == [job.folder for job in others]
        assert [job.read_runs for job in jobs] == [job.read_runs for job in others]
        assert [job.told for job in jobs] == [job.told for job in others]


def test_it_says_what_the_plain_plan_says(items, known):
    assert known.runs
    same(known, build_plan(items))


def test_jobs_have_the_names_of_their_specs(known):
    for stage, jobs in known.jobs.items():
        for name, job in jobs.items():
            assert (stage, name) == (job.spec.stage, run_id(job.spec)) == known.key_of(job.spec)
            assert job.folder == run_folder(job.spec)


def test_no_name_is_computed_twice(items, monkeypatch):
    plan = KnownPlan.of(build_plan(items))
    for module in ("plan", "known_plan"):
        monkeypatch.setattr(f"leaklab.planning.{module}.run_id", lambda spec: pytest.fail(f"named again: {spec}"))
    for _ in range(2):
        for scale, key in plan.runs:
            assert plan.jobs_of(scale, items[key])


@pytest.mark.parametrize("scales", [SCALES, ["demo"], ["small", "paper"]])
def test_changed_items_are_planned_anew(items, scales):
    gone = {"paper": ("lrp/figure12", "imagenet-validation"), "small": ("outpost/table4", "cifar10")}
    missing = {scale: {key: {name: "no data"}} for scale, (key, name) in gone.items() if scale in scales}
    changed = without_missing(items, missing)
    assert [key for key in items if changed[key] is not items[key]] == [key for one in missing.values() for key in one]
    same(KnownPlan.of(build_plan(items, scales)).with_items(changed, scales), build_plan(changed, scales))
