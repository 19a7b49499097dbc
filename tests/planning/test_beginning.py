"""The lock of a killed call is removed, that of a living one never; a folder that may not be written is one line."""

import os
import platform
import subprocess
import sys

import pytest

from leaklab.planning import call
from leaklab.planning.call import CALLS, LOCKS, free_lock_of_killed_call, note_call, refuse_closed_folders
from leaklab.records.errors import UserError


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
    note(locked, platform.node(), os.getpid(), call._began(os.getpid()))
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
    script = "import sys; from pathlib import Path; from leaklab.planning.call import *; note_call(Path(sys.argv[1]));"
    show = f"print(*[p.name for p in (Path(sys.argv[1]) / '{CALLS}').iterdir()])"
    done = subprocess.run([sys.executable, "-c", script + show, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{platform.node()}.")
    assert list((tmp_path / CALLS).iterdir()) == []
    note_call(tmp_path)
    assert free_lock_of_killed_call(tmp_path) == ""


@pytest.fixture
def closed(tmp_path):
    """A folder that even root may not write."""
    folder = tmp_path / "results/closed"
    folder.mkdir(parents=True)
    if os.geteuid():
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)
        return
    mounted = subprocess.run(["mount", "--bind", folder, folder], check=False, capture_output=True)
    if mounted.returncode:
        pytest.skip("root may write everywhere, and nothing can be mounted here")
    subprocess.run(["mount", "-o", "remount,ro,bind", folder], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_closed_folder_is_named_and_what_is_made_within_it(closed, tmp_path):
    for path in (closed / "scores.csv", closed / "new/folder/scores.csv"):
        with pytest.raises(UserError, match=f"^{closed} may not be written: .* nothing was started$"):
            refuse_closed_folders([str(path), tmp_path / "results/open.csv"])


def test_open_folders_and_those_that_are_yet_to_be_made_are_fine(closed, tmp_path):
    refuse_closed_folders([tmp_path / "results/open.csv", tmp_path / "figures/new/open.png"])
    refuse_closed_folders([])
