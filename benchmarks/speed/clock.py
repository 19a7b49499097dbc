"""Inside a worker: processor and wall time apart from the start-up, and the report that the runner reads."""

import json
import os
import resource
import time
from pathlib import Path

STARTED = "SPEED_STARTED"  # time.monotonic() at which the runner started this process


def use_one_cpu() -> None:
    """Bind this process to one processor: not every library can be told to use a single thread."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def cpu_seconds() -> float:
    """Return user and system time of this process and of everything that it started, running or ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime + sum(_running_descendants().values())


class Clock:
    """Two readings, one after the warm-up and one at the end.

    Args:
        parameters: weights of the trained model, for the runner to compare.
        cpus: processors that the worker may use.
    """

    def __init__(self, parameters: int, cpus: int = 1) -> None:
        self._parameters, self._cpus = parameters, cpus
        self._warm: tuple[float, float] | None = None

    def warmed_up(self) -> None:
        """End the start-up: imports, preparation and one round, in which contestants compile."""
        self._warm = time.monotonic(), cpu_seconds()

    def report(self, steps: int) -> None:
        """Print the measurement as one line of JSON.

        Args:
            steps: optimiser steps counted after the warm-up.
        """
        assert self._warm is not None
        ended, (warm, warm_cpu) = time.monotonic(), self._warm
        report = {
            "cpu": cpu_seconds() - warm_cpu,
            "wall": ended - warm,
            "startup_cpu": warm_cpu,
            "startup_wall": warm - float(os.environ.get(STARTED, warm)),
            "steps": steps,
            "parameters": self._parameters,
            "cpus": self._cpus,
        }
        print(json.dumps(report), flush=True)


def _running_descendants() -> dict[int, float]:
    """Return seconds by process id, of the process and of its ended children."""
    ticks = os.sysconf("SC_CLK_TCK")
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            # the name, in parentheses, may hold anything
            fields = file.read_text().rpartition(")")[2].split()
        except OSError:  # ended meanwhile
            continue
        pid = int(file.parent.name)
        parents[pid], seconds[pid] = int(fields[1]), sum(map(int, fields[11:15])) / ticks
    found: dict[int, float] = {}
    generation = {os.getpid()}
    while generation:
        generation = {pid for pid, parent in parents.items() if parent in generation}
        found |= {pid: seconds[pid] for pid in generation}
    return found
