"""The contest: every workload, contestants in turn (A B C A B C ...), so that a busy minute hits them all."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from leaklab.records.errors import UserError
from speed.contestants import Contestant
from speed.costs import StepCost
from speed.environments import NotInstalledError, python_of
from speed.kept import Kept
from speed.processes import FailedError, output

Key = tuple[str, str]  # workload, contestant
PEAK_SECONDS = 120.0
NOT_INSTALLED = "not installed"
Measure = Callable[[Contestant, Path, float], Any]
"""Contestant, its Python and the seconds it may take -> its measurement; raises FailedError."""


class Workload(Protocol):
    """What a contest needs to know of a workload."""

    @property
    def name(self) -> str:
        """Key on the command line."""
        ...


@dataclass
class Results:
    """Everything that was measured.

    Attributes:
        costs: of one step, by workload.
        runs: measurements in order, by workload and contestant.
        failures: why there is no figure, by workload and contestant.
        peaks: GFLOP/s of one thread, best of the run, by kind of operation.
        ended: workloads that all contestants have done.
    """

    costs: dict[str, StepCost] = field(default_factory=dict)
    runs: dict[Key, list[Any]] = field(default_factory=dict)
    failures: dict[Key, str] = field(default_factory=dict)
    peaks: dict[str, float] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)

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


@dataclass(frozen=True)
class Heat:
    """One workload, made ready.

    Attributes:
        cost: of one step.
        contestants: those that take part.
        repeats: measurements of each.
        measure: see ``Measure``.
    """

    cost: StepCost
    contestants: Sequence[Contestant]
    repeats: int
    measure: Measure


HeatOf = Callable[[Any, Sequence[Contestant], int], AbstractContextManager[Heat]]
"""Makes a workload ready for contestants and a number of repeats, and cleans up behind it."""


def hold(
    heat_of: HeatOf,
    workloads: Sequence[Workload],
    contestants: Sequence[Contestant],
    repeats: int,
    limit: float,
    interpreter: Callable[[str | None], Path] = python_of,
    kept: Kept | None = None,
) -> Results:
    """Measure everything; a failure is noted and its contestant left out of the rest of the workload.

    Args:
        heat_of: see ``HeatOf``.
        workloads: what to do.
        contestants: who does it.
        repeats: measurements of each.
        limit: seconds a worker may take.
        interpreter: gives the Python of an environment.
        kept: where workloads are kept that have ended; None: nowhere.

    Raises:
        FailedError: the peak of this machine could not be measured.
    """
    results: Results = (kept.read() if kept else None) or Results()
    pythons, missing = interpreters(contestants, interpreter)
    for workload in (one for one in workloads if one.name not in results.ended):
        try:
            with heat_of(workload, contestants, repeats) as heat:
                results.costs[workload.name] = heat.cost
                for contestant in heat.contestants:
                    if contestant.name in missing:
                        results.fail(workload, contestant, missing[contestant.name])
                for contestant in _turns(results, workload, heat):
                    _measure(results, workload, contestant, heat.measure, pythons[contestant.name], limit)
        except UserError as reason:
            for contestant in contestants:
                results.fail(workload, contestant, missing.get(contestant.name, str(reason)))
        if kept and not any(name == workload.name for name, _ in results.failures):
            results.ended.append(workload.name)
            kept.write(results)
    return results


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


def _turns(results: Results, workload: Workload, heat: Heat) -> Iterator[Contestant]:
    """Yield whose turn it is; before each round the machine's peak is measured."""
    for repeat in range(heat.repeats):
        for kind, rate in output(python_of(None), "speed.peak", limit=PEAK_SECONDS).items():
            results.peaks[kind] = max(rate, results.peaks.get(kind, 0.0))
        for contestant in heat.contestants:
            if (workload.name, contestant.name) not in results.failures:
                print(f"{workload.name} {contestant.name}, repeat {repeat + 1}", file=sys.stderr, flush=True)
                yield contestant


def _measure(
    results: Results, workload: Workload, contestant: Contestant, measure: Measure, python: Path, limit: float
) -> None:
    try:
        run = measure(contestant, python, limit)
    except FailedError as reason:
        results.fail(workload, contestant, f"failed: {reason}")
    else:
        results.runs.setdefault((workload.name, contestant.name), []).append(run)
