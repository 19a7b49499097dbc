"""The contest: every workload, contestants in turn (A B C A B C ...), so that a busy minute hits them all."""

import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from training_speed.contest import PEAK_SECONDS, Results, interpreters
from training_speed.contestants import Contestant
from training_speed.costs import step_cost
from training_speed.environments import python_of
from training_speed.runs import FailedError, output

from attack_speed.contestants import PLAIN
from attack_speed.material import made
from attack_speed.runs import measured
from attack_speed.workloads import Workload


def hold(
    workloads: Sequence[Workload],
    contestants: Sequence[Contestant],
    repeats: int,
    limit: float,
    interpreter: Callable[[str | None], Path] = python_of,
) -> Results:
    """Measure everything; a failure is noted and its contestant left out of the rest of the workload.

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
    results.peaks = output(interpreter(None), "peak", limit=PEAK_SECONDS)
    for workload in workloads:
        for contestant in contestants:
            if contestant.name in missing:
                results.fail(workload, contestant, missing[contestant.name])
        with tempfile.TemporaryDirectory() as folder:
            _compete(results, workload, [c for c in contestants if c.name in pythons], pythons, repeats, limit, folder)
    return results


def _compete(
    results: Results,
    workload: Workload,
    contestants: Sequence[Contestant],
    pythons: dict[str, Path],
    repeats: int,
    limit: float,
    folder: str,
) -> None:
    """Measure one workload."""
    material, path = made(workload), Path(folder) / "material.safetensors"
    material.save(path)
    results.costs[workload.name] = cost = step_cost(workload)
    wanted = material.objective.tolist()
    for repeat in range(1 if workload.quality else repeats):
        for contestant in contestants:
            if workload.quality and contestant.name == PLAIN:
                continue
            if (workload.name, contestant.name) in results.failures:
                continue
            print(f"{workload.name} {contestant.name}, repeat {repeat + 1}", file=sys.stderr, flush=True)
            python = pythons[contestant.name]
            try:
                run = measured(python, contestant.module, workload, path, wanted, cost, limit)
            except FailedError as reason:
                results.fail(workload, contestant, f"failed: {reason}")
            else:
                results.runs.setdefault((workload.name, contestant.name), []).append(run)
