"""What jobs are expected to cost, and which of them would run."""

import pytest

from leaklab.planning.code_lock import CodeLock
from leaklab.planning.devices import Device
from leaklab.planning.estimate import cpu_seconds, datasets_of, estimate, shares_of, source_of
from leaklab.planning.plan import Job
from leaklab.planning.resources import cost
from leaklab.records.files import write_json
from leaklab.specs.attack import AttackSpec
from leaklab.specs.training import PartitionSpec, TrainSpec


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    specs = [{"dataset": "mnist", "partition": {"name": "iid", "seed": seed}} for seed in range(3)]
    return [Job(PartitionSpec.model_validate(spec)) for spec in specs]


def test_jobs_without_a_record_or_with_one_of_other_code_would_run(jobs):
    one = cost(jobs[0].spec).seconds
    write_json(jobs[0].folder / "run.json", {"code": jobs[0].code})
    write_json(jobs[1].folder / "run.json", {"code": "of another time"})
    found = estimate(jobs)
    assert (found.jobs, found.waiting) == (3, 2)
    assert (found.seconds, found.waiting_seconds) == pytest.approx((3 * one, 2 * one))


def test_the_seconds_of_a_recipe_are_those_of_the_plan(jobs):
    assert cpu_seconds(jobs) == pytest.approx(estimate(jobs).seconds)
    assert cpu_seconds([*jobs, jobs[0]]) == cpu_seconds(jobs) > 0


def test_an_attack_without_a_search_evaluates_nothing():
    spec = {"capture": {"dataset": "mnist", "model": "mlp", "images": {"count": 2}}, "iterations": 10}
    searched, read = (cost(AttackSpec.model_validate(spec | {"attack": name})) for name in ("idlg", "analytic"))
    assert searched.evaluations > 0
    assert (read.evaluations, read.unit) == (0, 0)
    assert 0 < read.seconds < searched.seconds


def test_what_was_adopted_need_not_run(jobs, monkeypatch):
    write_json(jobs[0].folder / "run.json", {"code": "older"})
    monkeypatch.setattr(CodeLock, "accepts", lambda *_: True)
    assert estimate(jobs[:1], CodeLock()).waiting == 0


def test_each_data_set_is_named_once(jobs):
    assert datasets_of(jobs) == ("mnist",)


def test_a_source_is_named_in_words():
    assert source_of("digits") == "comes with the installed packages"
    assert source_of("mnist") == "fetched from LEAKLAB_MIRROR or the network"
    assert source_of("text/cola") == "fetched from LEAKLAB_MIRROR or the network"


def test_rounds_that_a_shorter_training_has_done_are_likely_not_done_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = {"dataset": "mnist", "partition": {"name": "iid", "settings": {"clients": 5}}, "model": "mlp",
            "rates": [[0.1]], "rounds": 100, "local_steps": 10, "batch_size": 32, "seeds": [1]}  # fmt: skip
    short, whole = (Job(TrainSpec.model_validate(told | until)) for until in ({"until": 75}, {}))
    assert shares_of([short, whole]) == {whole.name: pytest.approx(0.25)}
    assert shares_of([whole]) == {}
    both, alone = estimate([short, whole]), [estimate([one]) for one in (short, whole)]
    assert both.seconds == pytest.approx(sum(one.seconds for one in alone))
    assert both.likely_seconds < sum(one.likely_seconds for one in alone)


def test_a_plan_tells_likely_from_at_most_and_the_device_counts_for_both():
    searched = {"capture": {"dataset": "mnist", "model": "dlg-lenet", "images": {"count": 2}}, "iterations": 10}
    job = Job(AttackSpec.model_validate(searched | {"attack": "idlg"}))
    here = estimate([job])
    assert 0 < here.likely_seconds < here.seconds
    slow = estimate([job], device=Device("cpu", "slow", {"attack/dlg-lenet/idlg": 3.0}))
    assert slow.likely_seconds == pytest.approx(3 * here.likely_seconds)
