"""One worker, one measurement: started as a process of its own, and believed only if it did the work."""

from dataclasses import dataclass
from math import isclose
from pathlib import Path

from speed.costs import StepCost
from speed.processes import FailedError, output

from attack_speed.workloads import Workload

SAME = 1e-4
"""Largest relative difference of two contestants' objectives at one point."""


@dataclass(frozen=True)
class Measurement:
    """What one run of a worker cost.

    Attributes:
        cpu: processor seconds of the counted iterations, each from one evaluation of the objective to the next.
        iterations: counted by the worker, summed over the trials.
        attack_cpu: processor seconds of the whole attack on all trials, with what it does before and after iterations.
        attack_wall: seconds on the clock for the same.
        startup_cpu: processor seconds of imports, preparation, the objective and a few iterations to warm up.
        startup_wall: seconds on the clock for the same.
        parameters: weights of the network.
        reached: trials that came as close as the workload's target.
        found: smallest value that a trial has seen, mean over the trials.
        objective: [T] values at the common points, in float64.
        psnr: of the images that were evaluated last, median over the trials in dB; None where it was not asked for.
    """

    cpu: float
    iterations: int
    attack_cpu: float
    attack_wall: float
    startup_cpu: float
    startup_wall: float
    parameters: int
    reached: int
    found: float
    objective: list[float]
    psnr: float | None = None


def measured(
    python: Path, module: str, workload: Workload, material: Path, wanted: list[float], cost: StepCost, limit: float
) -> Measurement:
    """Run a worker on a workload.

    Args:
        python: interpreter of its environment.
        module: under ``attack_speed.workers``.
        workload: what to do.
        material: file with the input.
        wanted: [T] values of the objective at the common points.
        cost: what the model is known to be.
        limit: seconds after which it is ended.

    Raises:
        FailedError: it broke, took too long, or did other work than asked.
    """
    worker = f"attack_speed.workers.{module}"
    measurement = Measurement(**output(python, worker, workload.to_json(), str(material), limit=limit))
    check(measurement, workload, wanted, cost)
    return measurement


def check(measurement: Measurement, workload: Workload, wanted: list[float], cost: StepCost) -> None:
    """Refuse a figure for other work than asked.

    Raises:
        FailedError: with what differs.
    """
    if measurement.parameters != cost.parameters:
        raise FailedError(f"void: attacked {measurement.parameters} parameters instead of {cost.parameters}")
    counted = workload.fewest * workload.most <= measurement.iterations <= workload.most
    if workload.target is None and not counted:
        raise FailedError(f"void: did {measurement.iterations} iterations instead of {workload.most}")
    if len(measurement.objective) != len(wanted):
        raise FailedError(f"void: attacked {len(measurement.objective)} trials instead of {len(wanted)}")
    for trial, (value, expected) in enumerate(zip(measurement.objective, wanted, strict=True)):
        if not isclose(value, expected, rel_tol=SAME):
            raise FailedError(f"void: its objective is {value:.6g} instead of {expected:.6g} (trial {trial})")
    if workload.target is not None and measurement.reached == 0:
        raise FailedError(f"no image came to {workload.target:g} dB")
