"""The contest: every workload, contestants in turn (A B C A B C ...), so that a busy minute hits them all."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from leaklab.records.errors import UserError
from training_speed.contestants import Contestant
from training_speed.costs import StepCost, step_cost
from training_speed.environments import NotInstalledError, python_of
from training_speed.runs import FailedError, Measurement, measured, output
from training_speed.workloads import Workload

Key = tuple[str, str]  # workload, contestant
PEAK_SECONDS = 120.0
NOT_INSTALLED = "not installed"


@dataclass
class Results:
    """Everything that was measured.

    Attributes:
        costs: of one step, by workload.
        runs: measurements in order, by workload and contestant.
        failures: why there is no figure, by workload and contestant.
        peaks: GFLOP/s of one thread, best of the run, by kind of operation.
    """

    costs: dict[str, StepCost] = field(default_factory=dict)
    runs: dict[Key, list[Measurement]] = field(default_factory=dict)
    failures: dict[Key, str] = field(default_factory=dict)
    peaks: dict[str, float] = field(default_factory=dict)

    @property
    def peak(self) -> float:
        """The larger of the peaks, in GFLOP/s; 0 if there is none."""
        return max(self.peaks.values(), default=0.0)

    def fail(self, workload: Workload, contestant: Contestant, reason: str) -> None:
        """Note a failure, in one line on stderr too; figures of earlier repeats are dropped."""
        key = workload.name, contestant.name
        self.failures[key] = reason
        self.runs.pop(key, None)
        print(f"{workload.name} {contestant.name}: {reason}", file=sys.stderr, flush=True)


def interpreters(
    contestants: Sequence[Contestant], interpreter: Callable[[str | None], Path]
) -> tuple[dict[str, Path], dict[str, str]]:
    """Return the Python of each contestant, and for the others the reason why there is none, by name."""
    pythons, missing = {}, {}
    for contestant in contestants:
        try:
            pythons[contestant.name] = interpreter(contestant.environment)
        except NotInstalledError as reason:
            missing[contestant.name] = f"{NOT_INSTALLED}: {reason}"
    return pythons, missing


def hold(
    workloads: Sequence[Workload],
    contestants: Sequence[Contestant],
    repeats: int,
    limit: float,
    interpreter: Callable[[str | None], Path] = python_of,
) -> Results:
    """Measure everything.

    Args:
        workloads: what to do.
        contestants: who does it.
        repeats: measurements of each.
        limit: seconds a worker may take.
        interpreter: gives the Python of an environment.

    Raises:
        FailedError: the peak of this machine could not be measured.
    """
    results = Results()
    pythons, missing = interpreters(contestants, interpreter)
    for workload in workloads:
        taking_part = [contestant for contestant in contestants if workload.with_peers or not contestant.environment]
        try:
            results.costs[workload.name] = step_cost(workload)
        except UserError as reason:
            missing |= {contestant.name: str(reason) for contestant in taking_part}
        for contestant in taking_part:
            if contestant.name in missing:
                results.fail(workload, contestant, missing[contestant.name])
        for repeat in range(repeats):
            _measure_peak(results)
            for contestant in taking_part:
                if (workload.name, contestant.name) not in results.failures:
                    print(f"{workload.name} {contestant.name}, repeat {repeat + 1}", file=sys.stderr, flush=True)
                    _measure(results, workload, contestant, pythons[contestant.name], limit)
    return results


def _measure(results: Results, workload: Workload, contestant: Contestant, python: Path, limit: float) -> None:
    try:
        run = measured(python, contestant.module, workload, results.costs[workload.name], limit)
    except FailedError as reason:
        results.fail(workload, contestant, f"failed: {reason}")
    else:
        results.runs.setdefault((workload.name, contestant.name), []).append(run)


def _measure_peak(results: Results) -> None:
    for kind, rate in output(python_of(None), "peak", limit=PEAK_SECONDS).items():
        results.peaks[kind] = max(rate, results.peaks.get(kind, 0.0))
