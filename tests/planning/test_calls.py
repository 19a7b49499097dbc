"""The lock of a killed call is removed, that of a living one never."""

import os
import platform
import subprocess
import sys

import pytest

from leaklab.planning import calls
from leaklab.planning.calls import CALLS, LOCKS, free_lock_of_killed_call, note_call


@pytest.fixture
def locked(tmp_path):
    (tmp_path / LOCKS).mkdir(parents=True)
    (tmp_path / LOCKS / "0.input.lock").touch()
    (tmp_path / CALLS).mkdir()
    return tmp_path


def note(root, machine, process, began):
    (root / CALLS / f"{machine}.{process}.{began}").touch()


def ended_process():
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


def test_a_killed_call_is_followed_by_the_next_one(locked):
    note(locked, platform.node(), ended_process(), 1)
    assert "its lock is removed" in free_lock_of_killed_call(locked)
    assert not (locked / LOCKS).exists()
    assert list((locked / CALLS).iterdir()) == []
    assert free_lock_of_killed_call(locked) == ""


def test_a_living_call_keeps_its_lock_even_beside_a_killed_one(locked):
    note(locked, platform.node(), ended_process(), 1)
    note(locked, platform.node(), os.getpid(), calls._began(os.getpid()))
    assert free_lock_of_killed_call(locked) == ""
    assert (locked / LOCKS / "0.input.lock").exists()


def test_a_number_that_another_process_has_now_is_no_life(locked):
    note(locked, platform.node(), os.getpid(), "1")
    assert "removed" in free_lock_of_killed_call(locked)


def test_another_machine_cannot_be_seen(locked):
    note(locked, "elsewhere.example.org", ended_process(), 1)
    assert free_lock_of_killed_call(locked) == ""
    assert (locked / LOCKS).exists()


def test_a_lock_that_nobody_noted_stays(locked):
    assert free_lock_of_killed_call(locked) == ""
    assert (locked / LOCKS).exists()


def test_jobs_of_a_killed_call_are_waited_for(locked):
    note(locked, platform.node(), ended_process(), 1)
    waits = [sys.executable, "-c", "print(flush=True); input()", "leaklab.steps.some_step"]
    job = subprocess.Popen(waits, cwd=locked, stdin=-1, stdout=-1)
    try:
        job.stdout.readline()  # before its first line a process may still be without a command line to be seen
        assert f"processes {job.pid}" in free_lock_of_killed_call(locked)
        assert (locked / LOCKS).exists()
    finally:
        job.kill()
        job.communicate()
    assert "removed" in free_lock_of_killed_call(locked)


def test_a_call_notes_itself_until_it_ends(tmp_path):
    script = "import sys; from pathlib import Path; from leaklab.planning.calls import *; note_call(Path(sys.argv[1]));"
    show = f"print(*[p.name for p in (Path(sys.argv[1]) / '{CALLS}').iterdir()])"
    done = subprocess.run([sys.executable, "-c", script + show, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{platform.node()}.")
    assert list((tmp_path / CALLS).iterdir()) == []
    note_call(tmp_path)
    assert free_lock_of_killed_call(tmp_path) == ""
