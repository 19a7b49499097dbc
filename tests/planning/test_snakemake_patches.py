"""What Snakemake does by itself, and what it does mended: a test that watches it fails when it has mended itself."""

import asyncio
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from snakemake.cli import get_argument_parser
from snakemake.persistence.file import FilePersistence
from snakemake.scheduling.job_scheduler import JobRateLimiter
from snakemake.settings.types import MaxJobsPerTimespan

from leaklab.planning import gpus
from leaklab.planning.gpus import device_of
from leaklab.planning.snakemake_patches import (
    TOLERANCE,
    ask_for_the_gpu_first,
    bring_to_now,
    drop_default_limit,
    keep_to_own_locks,
)

DRIVER = "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU."
YEAR = 365 * 86400
PROGRAM = """
import atexit, gc
atexit.register(lambda: print(gc.get_freeze_count() > 0))  # the last registered is the first called
from leaklab.records.collector import NEW_OBJECTS, collect_rarely
collect_rarely()
print(gc.get_threshold()[0] == NEW_OBJECTS, gc.isenabled())
"""


@pytest.fixture
def call(tmp_path):
    """A function that gives the locks of another call in the folder, as Snakemake's own class keeps them, mended."""
    kind = type("Mended", (FilePersistence,), {})
    keep_to_own_locks(kind)

    def begin(of=kind):
        made = object.__new__(of)
        made._lockdir, made._lockfile = str(tmp_path / "locks"), {}
        (tmp_path / "locks").mkdir(exist_ok=True)
        return made

    return begin


def test_a_call_that_ends_leaves_the_locks_of_others(call, tmp_path):
    one, other = call(), call()
    one._write_locks("output", ["a.csv"])
    other._write_locks("output", ["b.csv"])
    one._delete_locks()
    assert list(other._read_locks()) == [("output", "b.csv")]
    other._delete_locks()
    assert not (tmp_path / "locks").exists()


def test_a_call_locks_though_another_took_the_folder_away(call):
    one, other = call(), call()
    one._write_locks("input", ["a.csv"])
    one._delete_locks()
    other._write_locks("input", ["b.csv"])
    assert list(other._read_locks()) == [("input", "b.csv")]


def test_a_lock_that_goes_while_it_is_read_is_none(call, monkeypatch):
    one, other = call(), call()
    one._write_locks("input", ["a.csv"])
    real, gone = os.path.isdir, []

    def is_folder(path):
        if not gone:
            gone.append(path)
            one._delete_locks()
        return real(path)

    monkeypatch.setattr("snakemake.persistence.file.os.path.isdir", is_folder)
    assert list(other._read_locks()) == []
    assert gone


def test_unlock_takes_all_locks_away(call, tmp_path):
    call()._write_locks("input", ["a.csv"])
    call().cleanup_locks()
    assert not (tmp_path / "locks").exists()


def test_a_call_that_had_nothing_to_lock_takes_none_away(call):
    one, other = call(), call()
    one._write_locks("input", ["a.csv"])
    other._write_locks("input", [])
    other._delete_locks()
    assert list(one._read_locks()) == [("input", "a.csv")]


def test_snakemake_itself_takes_the_locks_of_others(call):
    """If this fails, Snakemake has mended it: delete ``keep_to_own_locks``."""
    one, other = call(FilePersistence), call(FilePersistence)
    for number, locks in enumerate((one, other)):
        locks._write_locks("output", [f"{number}.csv"])
    one._delete_locks()
    assert list(other._read_locks()) == []
    shutil.rmtree(other._lockdir, ignore_errors=True)
    with pytest.raises(FileNotFoundError):
        other._write_locks("input", ["b.csv"])


def scheduler_of(*options):
    """What Snakemake makes of a command line."""
    limit = get_argument_parser().parse_args([*options]).max_jobs_per_timespan
    limit = MaxJobsPerTimespan.parse_choice(limit) if isinstance(limit, str) else limit
    return SimpleNamespace(job_rate_limiter=JobRateLimiter(limit))


def test_the_default_limit_goes():
    scheduler = scheduler_of()
    drop_default_limit(scheduler)
    assert scheduler.job_rate_limiter is None


@pytest.mark.parametrize("limit", ["5/1s", "100/1m"])
def test_a_limit_of_the_users_stays(limit):
    scheduler = scheduler_of("--max-jobs-per-timespan", limit)
    before = scheduler.job_rate_limiter
    drop_default_limit(scheduler)
    assert scheduler.job_rate_limiter is before is not None


def test_no_limit_is_fine():
    scheduler = SimpleNamespace(job_rate_limiter=None)
    drop_default_limit(scheduler)
    assert scheduler.job_rate_limiter is None


def test_garbage_is_collected_still_but_not_at_the_end():
    said = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["True", "True", "True"]


@pytest.fixture
def files(tmp_path):
    """Return files of two years and of a moment that clocks may differ by."""
    found = {}
    for name, shift in (("results/runs/a/scores.csv", YEAR), ("data/prepared/b.json", YEAR), ("results/c.csv", -YEAR),
                        ("results/d.csv", TOLERANCE / 2), ("logs/e.log", YEAR)):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")
        os.utime(path, (time.time() + shift,) * 2)
        found[name] = path
    return found


def times(files):
    return {name: path.stat().st_mtime for name, path in files.items()}


def test_only_what_lies_in_the_future_changes(files, tmp_path):
    before, began = times(files), time.time()
    said = bring_to_now(tmp_path)
    after = times(files)
    assert {name for name in files if after[name] != before[name]} == {
        "results/runs/a/scores.csv",
        "data/prepared/b.json",
    }
    assert all(
        began - 1 <= after[name] <= time.time() for name in ("results/runs/a/scores.csv", "data/prepared/b.json")
    )
    assert said.startswith("2 files had a time in the future, which is that of now (")
    assert said.endswith("b.json)")
    assert bring_to_now(tmp_path) == ""


def test_a_file_that_may_not_be_touched_keeps_its_time(files, tmp_path, monkeypatch):
    def forbidden(path):
        raise PermissionError(path)

    monkeypatch.setattr(os, "utime", forbidden)
    assert bring_to_now(tmp_path) == ""


def test_without_results_there_is_nothing_to_do(tmp_path):
    assert bring_to_now(Path(tmp_path / "none")) == ""


def a_job(tmp_path, device):
    """A job of a class like Snakemake's, and the list of what it did."""
    did = []

    class Job:
        rule, resources, log = SimpleNamespace(name="run_attack"), {"gpu": 0, **device}, [str(tmp_path / "logs/a.log")]

        async def prepare(self):
            did.append("prepared")

    ask_for_the_gpu_first(Job, ValueError)
    return Job(), did


def test_a_job_without_its_gpu_ends_before_it_begins_and_its_log_says_why(monkeypatch, tmp_path):
    monkeypatch.setattr(gpus, "gpu_problem", lambda: DRIVER)
    job, did = a_job(tmp_path, {"device": "cuda"})
    with pytest.raises(ValueError, match=r"^leaklab: device cuda: no GPU works"):
        asyncio.run(job.prepare())
    assert did == []
    assert (tmp_path / "logs/a.log").read_text().startswith("leaklab run_attack: device cuda: no GPU works")


@pytest.mark.parametrize("device", [{"device": "cpu"}, {}])
def test_a_job_that_needs_no_gpu_is_not_asked_for_one(monkeypatch, tmp_path, device):
    monkeypatch.setattr(gpus, "gpu_problem", lambda: pytest.fail("a GPU was looked for"))
    job, did = a_job(tmp_path, device)
    assert device_of(job) == device.get("device")
    asyncio.run(job.prepare())
    assert did == ["prepared"]
