"""Data that cannot be had: found without the network where they are here, left out of the plan, shown as not run."""

import json
from pathlib import Path

import pytest

from leaklab.data import fetch
from leaklab.items.expand import expand, expand_absent
from leaklab.items.items import with_missing
from leaklab.planning import missing as module
from leaklab.planning.missing import find_missing, found_before, pass_on, why_missing, without_missing
from leaklab.planning.outputs import State, state_of
from leaklab.planning.plan import build_plan, result_files
from leaklab.specs.base import run_folder

ROOT = Path(__file__).parents[2]
WHY = {"cifar100": "data not here: CIFAR-100"}


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """An empty folder with the real catalogs, no mirror and no downloads."""
    (tmp_path / "config").mkdir()
    for name in ("datasets.yaml", "texts.yaml"):
        (tmp_path / "config" / name).write_text((ROOT / "config" / name).read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(fetch.MIRROR_VARIABLE, raising=False)
    monkeypatch.setenv(module.VARIABLE, "")
    return tmp_path


@pytest.fixture(scope="module")
def items(whole_plan):
    return whole_plan.items


@pytest.fixture(scope="module")
def plan(whole_plan):
    return whole_plan


def nobody(addresses):
    return set()


def everybody(addresses):
    return set(addresses)


def test_embedded_data_are_here_and_nobody_is_asked(checkout):
    def refuse(addresses):
        assert addresses == []
        return set()

    assert why_missing(["digits", "faces", "text/printed-sentences"], refuse) == {}


def test_a_silent_host_is_named_and_no_folder_of_this_machine(checkout, monkeypatch):
    monkeypatch.setenv(fetch.MIRROR_VARIABLE, str(checkout))
    found = why_missing(["cifar100", "text/cola", "femnist"], nobody)
    assert set(found) == {"cifar100", "text/cola", "femnist"}
    assert "www.cs.toronto.edu cannot be reached" in found["cifar100"]
    assert "raw.githubusercontent.com" in found["text/cola"]
    assert "nobody publishes it" in found["femnist"]
    assert all(reason.startswith("data not here: ") and str(checkout) not in reason for reason in found.values())


def test_an_answering_host_is_enough_and_asked_once(checkout):
    asked = []

    def answer(addresses):
        asked.extend(addresses)
        return set(addresses)

    assert why_missing(["mnist", "cifar10", "cifar100"], answer) == {}
    hosts = [address.split("/")[2] for address in asked]
    assert len([host for host in hosts if "toronto" in host]) == 2  # one address of each data set
    assert len(set(asked)) == len(asked)


@pytest.mark.parametrize("place", ["prepared", "mirror", "downloads"])
def test_what_is_here_needs_no_network(checkout, monkeypatch, place):
    files = {
        "prepared": ["data/prepared/cifar100.safetensors", "data/prepared/cifar100.json"],
        "mirror": ["mirror/data/CIFAR100/cifar-100-python.tar.gz"],
        "downloads": ["data/raw/CIFAR100/cifar-100-python.tar.gz"],
    }[place]
    assert "cifar100" in why_missing(["cifar100"], nobody)
    catalog = module.load_catalog()["cifar100"]
    if place == "mirror":
        files = [f"mirror/{next(iter(catalog.mirror.files.values())).path}"]
        monkeypatch.setenv(fetch.MIRROR_VARIABLE, str(checkout / "mirror"))
    if place == "downloads":
        files = [f"data/raw/{file.path}" for file in catalog.official.files.values()]
    for name in files:
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).touch()
    assert why_missing(["cifar100"], nobody) == {}


def test_runs_on_missing_data_leave_the_plan_and_come_back_with_their_reason(items):
    item = items["lrp/figure2"]
    changed = with_missing(item, "paper", WHY)
    every, possible = expand(item, "paper"), expand(changed, "paper")
    absent = expand_absent(changed, "paper")
    assert 0 < len(possible) < len(every)
    names = {run_folder(run.spec) for run in every}
    assert names == {run_folder(run.spec) for run in possible} | {run_folder(run.spec) for run, _ in absent}
    assert all("cifar100" not in run.spec.datasets() for run in possible)
    assert all("cifar100" in run.spec.datasets() and reason == WHY["cifar100"] for run, reason in absent)
    assert expand(changed, "small") == expand(item, "small")


def test_needs_of_a_spec_are_those_of_its_jobs(plan):
    for scale, key in plan.runs:
        jobs = plan.jobs_of(scale, plan.items[key])
        of_jobs = {job.dataset for job in jobs if job.dataset}
        of_specs = {name for run in plan.runs[scale, key] if run.spec for name in run.spec.datasets()}
        assert of_specs == of_jobs, (scale, key)


def test_an_item_without_any_data_is_not_run_and_the_others_stay(checkout, items, plan):
    scarce = build_plan(
        without_missing(items, find_missing(plan, "paper", [i.key for i in plan.ready("paper")], nobody))
    )
    ready = [item.key for item in scarce.ready("paper")]
    assert {"lrp/figure1", "lrp/theorem1", "lrp/table4"} <= set(ready)
    assert "lrp/table1" not in ready
    state = state_of(scarce, scarce.items["lrp/table1"], "paper", checkout)
    assert state.word == "not run"
    assert "MNIST" in state.reason
    assert state_of(scarce, scarce.items["lrp/figure1"], "paper", checkout) == State(
        "not run", "snakemake --cores 2 results/paper/lrp/figure1.csv"
    )
    # other scales are not asked for, so nothing is looked for and nothing left out
    assert [i.key for i in scarce.ready("small")] == [i.key for i in plan.ready("small")]


@pytest.mark.parametrize(("lacked", "kept"), [({}, True), (WHY, False)])
def test_numbers_that_were_made_do_not_give_way_to_not_run(checkout, items, plan, lacked, kept):
    files = result_files(items["lrp/figure2"], "paper")
    files["csv"].parent.mkdir(parents=True)
    files["csv"].touch()
    files["table_record"].write_text(json.dumps({"spec": {"missing": lacked}}))
    found = find_missing(plan, "paper", ["lrp/figure2"], lambda addresses: {a for a in addresses if "cifar" not in a})
    assert ("cifar100" not in found.get("paper", {}).get("lrp/figure2", {})) == kept


def test_jobs_are_told_what_was_found(checkout, items, plan):
    pass_on({"paper": {"lrp/figure2": WHY}})
    assert found_before() == {"paper": {"lrp/figure2": WHY}}
    told_plan = build_plan(without_missing(items, found_before()), ("paper",))
    assert len(told_plan.runs["paper", "lrp/figure2"]) < len(plan.runs["paper", "lrp/figure2"])
