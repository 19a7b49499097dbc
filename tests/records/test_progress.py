"""A bar is there after some seconds on a terminal, and nowhere else."""

import os
import pty
import select
import subprocess
import sys
import time

import pytest

from leaklab.records import progress

PROGRAM = """
import sys, time
from leaklab.records import progress
progress.AFTER_SECONDS = float(sys.argv[1])
with progress.shown("reading items"):
    for _ in progress.tracked(range(4), 4):
        time.sleep(0.25)
print("done")
"""


def on_a_terminal(after):
    """Return what the program shows on a terminal as its standard error, and what it prints."""
    own, other = pty.openpty()
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(after)], stderr=other, stdout=subprocess.PIPE,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
    )  # fmt: skip
    os.close(other)
    shown, limit = b"", time.monotonic() + 60
    while time.monotonic() < limit and select.select([own], [], [], 10)[0]:
        try:
            part = os.read(own, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(own)
    return shown.decode(), program.communicate(timeout=60)[0].decode()


def test_a_bar_is_shown_on_a_terminal_and_goes_with_the_work():
    shown, printed = on_a_terminal(0.1)
    assert "reading items" in shown
    assert shown.rstrip().endswith(("\x1b[2K", "\x1b[?25h"))  # the line is erased, the cursor is back
    assert printed == "done\n"


def test_who_is_quick_shows_none():
    assert on_a_terminal(60) == ("", "done\n")


def test_there_is_none_without_a_terminal():
    done = subprocess.run([sys.executable, "-c", PROGRAM, "0"], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_work_that_fails_takes_its_bar_away(monkeypatch):
    monkeypatch.setattr(progress, "AFTER_SECONDS", 60)
    monkeypatch.setattr(sys, "stderr", type("Terminal", (), {"isatty": lambda self: True})())
    bars = []

    def fail():
        with progress.shown("x"):
            bars.extend(progress._bars)
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert not progress._bars
    assert [bar._timer.finished.is_set() for bar in bars] == [True]


def test_a_bar_within_another_is_none_and_loops_pass_everything_on(monkeypatch):
    monkeypatch.setattr(progress, "AFTER_SECONDS", 60)
    monkeypatch.setattr(sys, "stderr", type("Terminal", (), {"isatty": lambda self: True})())
    with progress.shown("outer"), progress.shown("inner"):
        assert len(progress._bars) == 1
        assert list(progress.tracked("abc", 3)) == ["a", "b", "c"]
    assert list(progress.tracked("abc", 3)) == ["a", "b", "c"]
