"""What is asked of a DVC remote for some items, and that nothing damaged is taken from it."""

import pytest

from leaklab.items.items import load_items
from leaklab.planning.fetching import paths_of, pull, refuse_damaged, words
from leaklab.planning.plan import Job, build_plan
from leaklab.records.errors import UserError
from leaklab.records.files import sha256, write_json, write_text
from leaklab.specs.stages import STAGES

SPEC = {"dataset": "mnist", "partition": {"name": "two-clients"}}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run whose record names its one file."""
    monkeypatch.chdir(tmp_path)
    job = Job(STAGES["partition"].model_validate(SPEC))
    file = job.folder / "partition.json"
    write_json(file, {"clients": []})
    write_json(job.folder / "run.json", {"outputs": {str(file): sha256(file)}})
    return job


def test_an_item_asks_for_its_runs_its_data_and_snakemakes_records():
    plan = build_plan(load_items(), ["demo"])
    item = plan.items["lrp/figure2"]
    jobs = plan.jobs_of("demo", item)
    asked = {str(path) for path in paths_of(jobs, [item], "demo")}
    assert {".snakemake/metadata", "data/prepared/digits.safetensors", "figures/demo/lrp/figure2.png"} <= asked
    assert {str(job.folder) for job in jobs} <= asked
    assert any(path.startswith("results/runs/observation/") for path in asked)
    small = {str(path) for path in paths_of(jobs, [item], "small")}
    assert not any(path.startswith(("results/small", "figures/small")) for path in small)  # they are in git


def test_what_is_as_recorded_is_taken(run):
    refuse_damaged([run])
    assert words([run]) == "1 of 1 runs are here"
    other = Job(STAGES["partition"].model_validate(SPEC | {"dataset": "cifar10"}))
    refuse_damaged([run, other])
    assert words([run, other]) == "1 of 2 runs are here; 1 were not shared: snakemake makes them"


@pytest.mark.parametrize("damage", ["changed", "gone", "record"])
def test_what_was_damaged_on_its_way_is_named(run, damage):
    file = run.folder / "partition.json"
    if damage == "changed":
        write_text(file, "{}")
    elif damage == "gone":
        file.unlink()
    else:
        file = run.folder / "run.json"
        write_text(file, "[]")
    with pytest.raises(UserError, match=rf"{file.name}: not what the record beside it says.*delete it"):
        refuse_damaged([run])


def test_where_nothing_was_shared_it_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"dvc\.lock is missing"):
        pull([])
