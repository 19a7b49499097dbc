"""What the workers share: the clock around iterations, and the order of a measurement."""

import json
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Protocol

import torch
from speed.clock import STARTED
from speed.costs import one_thread
from torch import Tensor

from attack_speed.material import Material
from attack_speed.workloads import INNER, Workload

WARM_UP = {"dlg": INNER, "ig": 2}
"""Iterations of every trial before the measured ones."""


class Reached(Exception):  # noqa: N818 - not an error
    """The image is as close as asked."""


class Meter:
    """Counts iterations, and their processor time from one evaluation of the objective to the next.

    What an attack does before its first evaluation and after its last step is left out.

    Args:
        truths: private images [T, pixels].
        target: in dB; None to watch nothing.
        follow: keep how close each trial's last evaluated image was.

    Attributes:
        cpu: processor seconds of the counted iterations.
        iterations: one per trial and evaluation that was followed by a step.
        reached: trials whose image came as close as ``target``.
        last: trial -> dB of the image that was evaluated last, where they are followed.
    """

    def __init__(self, truths: Tensor, target: float | None, follow: bool = False) -> None:
        self.cpu, self.iterations, self.reached = 0.0, 0, 0
        self.last: dict[int, float] = {}
        self._follow = follow
        self._truths, self._target = truths, target
        self._opened: tuple[float, int] | None = None
        self._stepped: float | None = None

    def evaluating(self, points: Tensor, rows: Sequence[int]) -> Tensor:
        """Note that the objective is about to be evaluated.

        Args:
            points: [S, n], whose first unknowns are pixels.
            rows: trial of each.

        Returns:
            For each point whether it has reached the target: [S] bool.
        """
        self._close(time.process_time())
        self._opened, self._stepped = (time.process_time(), len(rows)), None
        if self._target is None and not self._follow:
            return torch.zeros(len(rows), dtype=torch.bool)
        truths = self._truths[list(rows)]
        closeness = psnr(points.detach()[:, : truths.shape[1]], truths)
        self.last |= dict(zip(rows, closeness.tolist(), strict=True))
        there = closeness >= (float("inf") if self._target is None else self._target)
        self.reached += int(there.sum())
        return there

    def stepped(self) -> None:
        """Note that the optimizer has returned."""
        self._stepped = time.process_time()

    def ended(self) -> None:
        """Note that an attack is over: an evaluation without a step after it is no iteration."""
        if self._stepped is not None:
            self._close(self._stepped)
        self._opened = self._stepped = None

    def _close(self, now: float) -> None:
        if self._opened is not None:
            opened, trials = self._opened
            self.cpu += now - opened
            self.iterations += trials


class Attacker(Protocol):
    """What a worker has to offer."""

    def objective(self) -> list[float]:
        """Return the value at every trial's common point."""
        ...

    def attack(self, iterations: int, starts: int, meter: Meter) -> list[float]:
        """Attack every trial and return the smallest value that each has seen."""
        ...


class OneByOne(ABC):
    """An attacker that knows a single trial at a time, and starts until one has reached the target."""

    def __init__(self, workload: Workload, material: Material) -> None:
        self.workload, self.material = workload, material

    def attack(self, iterations: int, starts: int, meter: Meter) -> list[float]:
        """See ``Attacker.attack``."""
        return [self._trial(trial, iterations, starts, meter) for trial in range(self.workload.trials)]

    @abstractmethod
    def start(self, trial: int, number: int, iterations: int, meter: Meter) -> float:
        """Search from one start and return the smallest value that was seen; a worker brings it.

        Raises:
            Reached: the meter said so.
        """

    def _trial(self, trial: int, iterations: int, starts: int, meter: Meter) -> float:
        best = float("inf")
        for number in range(starts):
            try:
                best = min(best, self.start(trial, number, iterations, meter))
            except Reached:
                return best
            finally:
                meter.ended()
        return best


def psnr(images: Tensor, truths: Tensor) -> Tensor:
    """Return the peak signal-to-noise ratio in dB of images [S, n], clamped to [0, 1]: [S]."""
    return -10 * (images.clamp(0, 1) - truths).square().mean(1).log10()


def input_of_worker() -> tuple[Workload, Material]:
    """Bind the process to one thread and return what it was started for."""
    one_thread()
    workload = Workload.from_json(sys.argv[1])
    return workload, Material.load(Path(sys.argv[2]), workload)


def measure(attacker_of: Callable[[Workload, Material], Attacker]) -> None:
    """Warm up, measure what the process was started for, and print one line of JSON.

    The objectives are compared in float64: in float32, rounding decides which ReLUs are open, and a single one in a
    late layer of a residual network changes a cosine by a thousandth.
    """
    workload, material = input_of_worker()
    objective = attacker_of(workload, material.double()).objective()
    attacker = attacker_of(workload, material)
    truths = material.images.flatten(1)
    attacker.attack(WARM_UP[workload.attack], 1, Meter(truths, None))
    meter = Meter(truths, workload.target, workload.quality)
    cpu, wall = time.process_time(), time.monotonic()
    found = attacker.attack(workload.iterations, workload.starts, meter)
    report = {
        "cpu": meter.cpu,
        "iterations": meter.iterations,
        "attack_cpu": time.process_time() - cpu,
        "attack_wall": time.monotonic() - wall,
        "startup_cpu": cpu,
        "startup_wall": wall - float(os.environ.get(STARTED, wall)),
        "parameters": sum(parameter.numel() for parameter in material.network.parameters()),
        "reached": meter.reached,
        "found": sum(found) / len(found),
        "psnr": median(meter.last.values()) if workload.quality else None,
        "objective": objective,
    }
    print(json.dumps(report), flush=True)
