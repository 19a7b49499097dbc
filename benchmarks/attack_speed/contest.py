"""How attacks are measured: all contestants of a workload get the same material from one file."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from speed.contest import Heat
from speed.contestants import Contestant
from speed.costs import step_cost

from attack_speed.contestants import PLAIN
from attack_speed.material import made
from attack_speed.runs import Measurement, measured
from attack_speed.workloads import Workload


@contextmanager
def heat_of(workload: Workload, contestants: Sequence[Contestant], repeats: int) -> Iterator[Heat]:
    """Make a workload ready; see ``speed.contest.HeatOf``."""
    material, cost = made(workload), step_cost(workload)
    wanted = material.objective.tolist()
    # what images come to is measured once, beside the peers only
    taking_part = [one for one in contestants if not (workload.quality and one.name == PLAIN)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "material.safetensors"
        material.save(path)

        def measure(contestant: Contestant, python: Path, limit: float) -> Measurement:
            return measured(python, contestant.module, workload, path, wanted, cost, limit)

        yield Heat(cost, taking_part, 1 if workload.quality else repeats, measure)
