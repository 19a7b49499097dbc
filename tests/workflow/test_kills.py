"""A job or a call that is killed is followed by the same call, and nothing that was finished is lost."""

import os
import shutil
import signal
import subprocess
import time

import pytest

pytestmark = pytest.mark.workflow


def test_killed_job_is_finished_by_the_next_call(few, tmp_path):
    torn = few.copy(tmp_path / "torn")
    run = next(path for path in sorted((torn.folder / "results/runs/train").iterdir()) if "cnn-small" in path.name)
    expected = (run / "weights.safetensors").read_bytes()
    others = {
        path: path.stat().st_mtime_ns for path in (torn.folder / "results/runs/attack").rglob("*") if path.is_file()
    }
    shutil.rmtree(run)
    command = [
        "snakemake",
        "--cores",
        "1",
        "--quiet",
        "all",
        "--",
        str((run / "weights.safetensors").relative_to(torn.folder)),
    ]
    running = subprocess.Popen(
        command, cwd=torn.folder, env=torn.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    os.kill(torn.process("leaklab.steps.train_federated", run.name), signal.SIGKILL)
    running.communicate(timeout=120)
    assert running.returncode != 0
    assert not (run / "weights.safetensors").exists()

    torn.must(*command)
    assert (run / "weights.safetensors").read_bytes() == expected
    assert {path: path.stat().st_mtime_ns for path in others} == others


def locked(torn):
    """Wait until Snakemake has taken its lock, which is before it calls onstart."""
    limit = time.monotonic() + 60
    while not any((torn.folder / ".snakemake/locks").glob("*")):
        assert time.monotonic() < limit
        time.sleep(0.001)


@pytest.mark.parametrize("when", ["the lock is taken", "a step works"])
def test_a_killed_call_is_followed_by_the_next_one(few, tmp_path, when):
    torn = few.copy(tmp_path / "torn")
    run = next(path for path in sorted((torn.folder / "results/runs/train").iterdir()) if "cnn-small" in path.name)
    shutil.rmtree(run)
    target = str((run / "weights.safetensors").relative_to(torn.folder))
    command = ["snakemake", "--cores", "1", "--quiet", "all", "--", target]
    running = subprocess.Popen(
        command, cwd=torn.folder, env=torn.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    locked(torn) if when == "the lock is taken" else torn.process("leaklab.steps.train_federated", run.name)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait(timeout=60)
    assert list((torn.folder / ".snakemake/locks").iterdir())

    assert "its lock is removed" in torn.must(*command)
    assert (run / "weights.safetensors").is_file()
    assert list((torn.folder / ".snakemake/calls").iterdir()) == []
