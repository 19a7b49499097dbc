"""Calls of a workspace: the plain command, and what it said."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from chaos import client
from chaos.workspace import Workspace
from leaklab.fork_server import ADDRESS

TRACEBACK = "Traceback (most recent call last)"
INTERRUPT, CANCELLED = "KeyboardInterrupt", "asyncio.exceptions.CancelledError"
SNAKEMAKE = ("snakemake", "--cores", "1", "--")
LIMIT = 600.0


@dataclass(frozen=True)
class Said:
    """How a call ended, and all that it and the steps that it started wrote.

    Attributes:
        status: 0 if all is well; negative for the signal that ended it.
        seconds: of wall time.
    """

    status: int
    text: str
    seconds: float

    @property
    def tracebacks(self) -> int:
        """How many tracebacks of Python are in the text, without the answers to SIGINT."""
        return len(self.unasked)

    @property
    def interrupts(self) -> int:
        """How many tracebacks end with the exception by which Python answers SIGINT."""
        return self.text.count(TRACEBACK) - self.tracebacks

    @property
    def unasked(self) -> list[str]:
        """The last lines of the tracebacks that are no answers to SIGINT.

        Of what runs under asyncio that is a second one, "during handling" of that of the task which was cancelled.
        Where two processes answered at once, their lines are mixed: as many ends are looked for as tracebacks began.
        """
        said, begun = list[str](), 0
        for line in self.text.splitlines():
            if TRACEBACK in line:
                begun += line.count(TRACEBACK)
            elif begun and re.match(r"\S", line):
                said.append(line)
                begun -= 1
        said += [""] * begun
        return [
            one
            for one, then in pairwise([*said, ""])
            if not one.startswith(INTERRUPT) and not (one.startswith(CANCELLED) and then.startswith(INTERRUPT))
        ]

    @property
    def last_line(self) -> str:
        """The last line of this project's own, else the last one that names an error, else the last one."""
        lines = [line for line in self.text.splitlines() if line.strip()]
        own = [line for line in lines if line.startswith(("leaklab ", "leaklab: failed: "))]
        errors = [
            line for line in lines if "Error" in line and not line.startswith(("Error in rule", "WorkflowError:"))
        ]
        return (own or errors or lines or [""])[-1]


@dataclass(frozen=True)
class Running:
    """A call that has been started; ``group`` is its process group, which it leads."""

    connection: Any
    pid: int
    printed: Path
    began: float

    def kill(self, number: signal.Signals, whole_group: bool) -> None:
        """Send a signal to Snakemake alone, or to all that it has started as well."""
        (os.killpg if whole_group else os.kill)(self.pid, number)


@dataclass(frozen=True)
class Calls:
    """Starts commands of a workspace through its nursery, whose folder is ``folder``."""

    workspace: Workspace
    folder: Path

    def start(self, *command: str, **environment: str) -> Running:
        """Start a command in a process group of its own."""
        handle, name = tempfile.mkstemp(dir=self.folder)
        silent = os.open(os.devnull, os.O_RDONLY)
        given = {**self.workspace.environment, ADDRESS: "off", **environment}
        asked = client.ask(str(self.folder / "socket"), command, given, str(self.workspace.folder), client.OWN_GROUP,
                           (silent, handle, handle))  # fmt: skip
        os.close(handle)
        os.close(silent)
        return Running(*asked, Path(name), time.time())

    def ended(self, running: Running) -> Said:
        """Wait for a command, and return what it said, with the logs of the steps that it started."""
        running.connection.settimeout(LIMIT)
        status = int(client.line_of(running.connection) or 1)
        seconds = time.time() - running.began
        logs = (self.workspace.folder / "logs").rglob("*.log")
        fresh = [path for path in logs if path.stat().st_mtime >= running.began - 1]
        texts = [path.read_text("utf-8", errors="replace") for path in [running.printed, *fresh]]
        running.printed.unlink()
        # with show-failed-logs the log of a failed job is printed as well: count it once
        said = texts[0] + "".join(text for text in texts[1:] if text.strip() and text.strip() not in texts[0])
        return Said(status, said, seconds)

    def run(self, *command: str, **environment: str) -> Said:
        """Run a command to its end."""
        return self.ended(self.start(*command, **environment))

    def plain(self, targets: Sequence[str]) -> Said:
        """Run the plain command."""
        return self.run(*SNAKEMAKE, *targets)

    def living(self) -> dict[int, list[str]]:
        """Return the steps that work: process -> its command line."""
        found = {}
        for path in (self.folder / "living").iterdir():
            try:
                words = json.loads(path.read_text("utf-8"))
            except OSError:  # it has ended meanwhile
                continue
            if words[0] == "-m":
                found[int(path.name)] = words
        return found

    def wait_for_steps(self) -> None:
        """Wait until no step works any more."""
        limit = time.monotonic() + LIMIT
        while self.living() and time.monotonic() < limit:
            time.sleep(0.05)

    def wait_until(self, happened: Callable[[], bool], running: Running) -> bool:
        """Wait for something while a call runs; return whether it happened before the call ended."""
        while not happened():
            if not Path(f"/proc/{running.pid}").exists():
                return False
            time.sleep(0.005)
        return True

    def ends(self) -> list[dict[str, Any]]:
        """Return a line for each process that has ended: ``pid``, ``arguments``, ``status``, ``cpu``, ``seconds``."""
        return [json.loads(line) for line in (self.folder / "ended").read_text("utf-8").splitlines()]


@contextmanager
def nursery(workspace: Workspace, folder: Path) -> Iterator[Calls]:
    """Start the nursery of a workspace in a folder, and end it."""
    folder.mkdir()
    shim = folder / "python"
    own = Path(client.__file__)
    python = f"exec '{sys.executable}'"
    step = f"shift 2; {python} -IS '{own}' '{folder}/socket' -m \"$@\""  # in place of the server of a call
    shim.write_text(f'#!/bin/sh\ncase "$3" in leaklab.steps.*) {step};; esac\n{python} "$@"\n')
    shim.chmod(0o755)
    path = f"{workspace.folder / 'src'}{os.pathsep}{own.parents[1]}"
    command = [sys.executable, "-m", "chaos.nursery", str(folder)]
    log = (folder / "log").open("w")
    process = subprocess.Popen(command, cwd=workspace.folder, stdin=subprocess.PIPE, stdout=log, stderr=log,
                               env={**workspace.environment, "PYTHONPATH": path})  # fmt: skip
    try:
        while not (folder / "ready").exists():
            if process.poll() is not None:
                raise RuntimeError((folder / "log").read_text("utf-8"))
            time.sleep(0.1)
        yield Calls(workspace, folder)
    finally:
        assert process.stdin
        process.stdin.close()
        process.wait(timeout=60)
        log.close()
        shutil.rmtree(folder, ignore_errors=True)
