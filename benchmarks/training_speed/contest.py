"""How training is measured: contestants get the workload as text; peers leave the largest networks out."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from speed.contest import Heat
from speed.contestants import Contestant
from speed.costs import step_cost

from training_speed.runs import Measurement, measured
from training_speed.workloads import Workload


@contextmanager
def heat_of(workload: Workload, contestants: Sequence[Contestant], repeats: int) -> Iterator[Heat]:
    """Make a workload ready; see ``speed.contest.HeatOf``."""
    cost = step_cost(workload)

    def measure(contestant: Contestant, python: Path, limit: float) -> Measurement:
        return measured(python, contestant.module, workload, cost, limit)

    yield Heat(cost, [one for one in contestants if workload.with_peers or not one.environment], repeats, measure)
