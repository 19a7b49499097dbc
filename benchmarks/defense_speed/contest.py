"""How steps under defenses are measured: every contestant is the same worker with another defense."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from speed.contest import Heat
from speed.contestants import Contestant
from speed.costs import step_cost
from speed.processes import output
from training_speed.runs import Measurement, check
from training_speed.workloads import Workload

from defense_speed.contestants import SLOW
from defense_speed.workloads import of_loop


@contextmanager
def heat_of(workload: Workload, contestants: Sequence[Contestant], repeats: int) -> Iterator[Heat]:
    """Make a workload ready; see ``speed.contest.HeatOf``."""
    cost = step_cost(workload)

    def measure(contestant: Contestant, python: Path, limit: float) -> Measurement:
        own = of_loop(workload) if contestant.name in SLOW else workload
        found = output(python, f"defense_speed.{contestant.module}", own.to_json(), contestant.name, limit=limit)
        measurement = Measurement(**found)
        check(measurement, own, cost)
        return measurement

    yield Heat(cost, contestants, repeats, measure)
