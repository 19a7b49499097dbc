"""One worker, one measurement: started as a process of its own, and believed only if it did the work."""

import json
import os
import re
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from training_speed.clock import STARTED
from training_speed.costs import StepCost
from training_speed.workloads import Workload

FOLDER = Path(__file__).parents[1]
ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
LONGEST_REASON = 160


class FailedError(Exception):
    """The reason, in one line, why a worker has no figure."""


@dataclass(frozen=True)
class Measurement:
    """What one run of a worker cost.

    Attributes:
        cpu: processor seconds after the warm-up, of the worker and of all processes that it started.
        wall: seconds on the clock for the same.
        startup_cpu: processor seconds of imports, preparation and the warm-up round.
        startup_wall: seconds on the clock for the same.
        steps: optimiser steps counted by the worker after the warm-up.
        parameters: weights of the model that it trained.
        cpus: processors that it was allowed.
    """

    cpu: float
    wall: float
    startup_cpu: float
    startup_wall: float
    steps: int
    parameters: int
    cpus: int


def measured(python: Path, module: str, workload: Workload, cost: StepCost, limit: float) -> Measurement:
    """Run a worker on a workload.

    Args:
        python: interpreter of its environment.
        module: under ``training_speed.workers``.
        workload: what to do.
        cost: what the model is known to be.
        limit: seconds after which it is ended.

    Raises:
        FailedError: it broke, took too long, or did other work than asked.
    """
    measurement = Measurement(**output(python, module, workload.to_json(), limit=limit))
    check(measurement, workload, cost)
    return measurement


def check(measurement: Measurement, workload: Workload, cost: StepCost) -> None:
    """Refuse a figure for other work than asked.

    Raises:
        FailedError: with what differs.
    """
    if measurement.steps != workload.steps:
        raise FailedError(f"void: did {measurement.steps} optimiser steps instead of {workload.steps}")
    if measurement.parameters != cost.parameters:
        raise FailedError(f"void: trained {measurement.parameters} parameters instead of {cost.parameters}")


def output(python: Path, module: str, *arguments: str, limit: float) -> dict[str, float]:
    """Return the JSON object that a worker prints last.

    Raises:
        FailedError: it ended with an error, printed no such line, or took longer than ``limit`` seconds.
    """
    with tempfile.TemporaryDirectory() as empty:
        process = subprocess.Popen(
            [str(python), "-m", f"training_speed.workers.{module}", *arguments],
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
    report: dict[str, float] = json.loads(reports[-1])
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
