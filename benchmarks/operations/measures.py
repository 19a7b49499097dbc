"""Measurements of commands: seconds of wall time and of processor time, with the processes that they start."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Figure:
    """One number of the page.

    Attributes:
        section: which command of this package measured it.
        what: in words.
        value: in ``unit``.
        note: what it was measured on.
    """

    section: str
    what: str
    value: float
    unit: str
    note: str = ""


@dataclass(frozen=True)
class Timed:
    """Seconds of a command, and what it printed."""

    wall: float
    cpu: float
    text: str


def timed(*command: str, folder: Path = Path(), **environment: str) -> Timed:
    """Run a command of the virtual environment, which has to succeed.

    Raises:
        RuntimeError: it did not.
    """
    given = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", **environment}
    before, began = os.times(), time.monotonic()
    done = subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True, check=False)
    wall, after = time.monotonic() - began, os.times()
    if done.returncode:
        said = done.stdout[-2000:] + done.stderr[-2000:]
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{said}")
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Timed(wall, cpu, done.stdout + done.stderr)
