"""One worker, one measurement: started as a process of its own, and believed only if it did the work."""

from dataclasses import dataclass
from pathlib import Path

from speed.costs import StepCost
from speed.processes import FailedError, output

from training_speed.workloads import Workload


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
    measurement = Measurement(**output(python, f"training_speed.workers.{module}", workload.to_json(), limit=limit))
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
