"""How steps of algorithms are measured: own ones by one worker, others by their own."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from speed.contest import Heat
from speed.contestants import Contestant
from speed.costs import step_cost
from speed.processes import output
from training_speed.runs import Measurement, check
from training_speed.workloads import Workload

from algorithm_speed.contestants import ALONE, SLOW
from algorithm_speed.workloads import alone, of_loop


@contextmanager
def heat_of(workload: Workload, contestants: Sequence[Contestant], repeats: int) -> Iterator[Heat]:
    """Make a workload ready; see ``speed.contest.HeatOf``."""
    cost = step_cost(workload)

    def measure(contestant: Contestant, python: Path, limit: float) -> Measurement:
        own = work_of(contestant, workload)
        module = f"algorithm_speed.workers.{contestant.module}"
        measurement = Measurement(**output(python, module, own.to_json(), contestant.name, limit=limit))
        check(measurement, own, cost)
        return measurement

    yield Heat(cost, contestants, repeats, measure)


def work_of(contestant: Contestant, workload: Workload) -> Workload:
    """Return what a contestant is asked for."""
    if contestant.name in SLOW:
        return of_loop(workload)
    return alone(workload) if contestant.name in ALONE else workload
