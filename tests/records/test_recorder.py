"""``run.json``: the whole story of one execution, in a git checkout and outside of one."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from leaklab.records.recorder import Recorder, git_state
from leaklab.records.recorder import driver as driver_of

FIELDS = {
    "format", "rule", "spec", "code", "commit", "dirty", "argv", "device", "device_name", "driver", "facts", "inputs",
    "outputs", "started", "wall_seconds", "cpu_seconds", "peak_memory_mb", "slurm_job", "platform", "packages",
}  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "no-such-file"))
    for name in ("GIT_DIR", "GIT_WORK_TREE", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def finished(**changes):
    """Finish a record of three inputs under two names and one output; return its content."""
    for name in ("one", "two", "three", "made"):
        Path(name).write_text(f"content of {name}", encoding="utf-8")
    recorder = Recorder("make_table", "abc", facts={"rows": 3}, **changes)
    inputs = {"tables": [Path("one"), Path("two")], "item": [Path("three")], "sweeps": []}
    recorder.finish(Path("below/run.json"), {"scale": "small"}, inputs, {"csv": Path("made")})
    return json.loads(Path("below/run.json").read_text(encoding="utf-8"))


def digest(name):
    return hashlib.sha256(f"content of {name}".encode()).hexdigest()


class TestRecord:
    def test_nothing_is_missing(self):
        assert set(finished()) == FIELDS

    def test_who_ran_what(self, monkeypatch):
        monkeypatch.setattr(sys, "argv", ["step", "--spec", "{}"])
        record = finished()
        assert (record["rule"], record["code"], record["spec"]) == ("make_table", "abc", {"scale": "small"})
        assert (record["argv"], record["facts"], record["device"]) == (["--spec", "{}"], {"rows": 3}, "cpu")
        assert record["device_name"]

    def test_every_file_has_the_hash_of_its_bytes(self):
        record = finished()
        assert record["inputs"] == {name: digest(name) for name in ("one", "two", "three")}
        assert record["outputs"] == {"made": digest("made")}

    def test_what_it_took(self):
        before = datetime.now(UTC)
        started = before.timestamp() - 90
        record = finished(started=started)
        assert 90 <= record["wall_seconds"] < 120
        assert record["cpu_seconds"] > 0
        assert record["peak_memory_mb"] > 5
        assert datetime.fromisoformat(record["started"]).timestamp() == pytest.approx(started, abs=1)
        assert datetime.fromisoformat(record["started"]).tzinfo is not None

    def test_versions_of_what_made_the_numbers(self):
        packages = finished()["packages"]
        assert {"python", "leaklab", "torch", "numpy", "pandas"} <= set(packages)
        assert all(re.match(r"\d+\.\d+", version) for version in packages.values())

    def test_the_number_of_a_slurm_job(self, monkeypatch):
        assert finished()["slurm_job"] is None
        monkeypatch.setenv("SLURM_JOB_ID", "42")
        assert finished()["slurm_job"] == "42"

    def test_an_output_that_was_not_made_leaves_no_record(self):
        with pytest.raises(FileNotFoundError):
            Recorder("make_table").finish(Path("run.json"), {}, {}, {"csv": Path("missing")})
        assert not Path("run.json").exists()


def test_outside_of_git_commit_and_dirty_are_null():
    assert git_state() == {"commit": None, "dirty": None}


def test_without_git_commit_and_dirty_are_null(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert git_state() == {"commit": None, "dirty": None}


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
class TestGit:
    @pytest.fixture(autouse=True)
    def commit(self, folder):
        (folder / "src").mkdir()
        for name in ("src/code.py", "README.md", "pyproject.toml"):
            (folder / name).write_text("first\n", encoding="utf-8")
        self.git("init", "--quiet")
        return self.save()

    @staticmethod
    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false"]
        done = subprocess.run(["git", *identity, *arguments], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def save(self):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "a change")
        return self.git("rev-parse", "HEAD")

    def test_a_clean_checkout(self, commit):
        assert git_state() == {"commit": commit, "dirty": False}
        record = finished()
        assert (record["commit"], record["dirty"]) == (commit, False)

    @pytest.mark.parametrize("name", ["src/code.py", "src/new.py", "pyproject.toml", "config/config.yaml", "Snakefile"])
    def test_changed_and_new_code_is_dirty_until_it_is_committed(self, commit, name):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("second\n", encoding="utf-8")
        assert git_state() == {"commit": commit, "dirty": True}
        later = self.save()
        assert later != commit
        assert git_state() == {"commit": later, "dirty": False}

    def test_a_removed_module_is_dirty(self):
        Path("src/code.py").unlink()
        assert git_state()["dirty"] is True

    @pytest.mark.parametrize("name", ["README.md", "results/small/table.csv", "notes.txt"])
    def test_what_no_step_runs_does_not_count(self, commit, name):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("second\n", encoding="utf-8")
        assert git_state() == {"commit": commit, "dirty": False}


@pytest.mark.parametrize(
    ("device", "told", "driver"),
    [
        (
            "cuda",
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 09:35:42 UTC 2024\nGCC 12.2.0",
            "550.90.07",
        ),
        ("cuda", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build", "570.86.15"),
        ("cuda", "no number", None),
        ("cuda", None, None),
        ("cpu", "Kernel Module  550.90.07", None),
    ],
)
def test_the_driver_of_a_gpu_is_named(tmp_path, device, told, driver):
    file = tmp_path / "version"
    if told is not None:
        file.write_text(told)
    assert driver_of(device, file) == driver
