"""One worker as a process of its own, on one thread, ended when it takes too long."""

import json
import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from speed.clock import STARTED

FOLDER = Path(__file__).parents[1]
ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
LONGEST_REASON = 160


class FailedError(Exception):
    """The reason, in one line, why a worker has no figure."""


def output(python: Path, module: str, *arguments: str, limit: float) -> dict[str, Any]:
    """Return the JSON object that a worker prints last.

    Args:
        python: interpreter of its environment.
        module: its dotted name.
        arguments: what it is started with.
        limit: seconds after which it is ended, with all that it started.

    Raises:
        FailedError: it ended with an error, printed no such line, or took longer than ``limit`` seconds.
    """
    with tempfile.TemporaryDirectory() as empty:
        process = subprocess.Popen(
            [str(python), "-m", module, *arguments],
            env=_environment(Path(empty)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            printed, complaints = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            raise FailedError(f"took longer than {limit:.0f} s") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
    reports = [line for line in printed.splitlines() if line.startswith("{")]
    if process.returncode or not reports:
        raise FailedError(_last_line(complaints) or f"ended with {process.returncode} and printed nothing")
    report: dict[str, Any] = json.loads(reports[-1])
    return report


def _environment(empty: Path) -> dict[str, str]:
    """Return a worker's environment: one thread, and nothing compiled by an earlier run."""
    return {
        **os.environ,
        **dict.fromkeys(ONE_THREAD, "1"),
        "PYTHONPATH": os.pathsep.join([str(FOLDER), str(FOLDER.parent / "src")]),
        "TORCHINDUCTOR_CACHE_DIR": str(empty),
        STARTED: str(time.monotonic()),
    }


def _last_line(text: str) -> str:
    lines = [line.strip() for line in COLOURS.sub("", text).splitlines() if line.strip()]
    return lines[-1][:LONGEST_REASON] if lines else ""
