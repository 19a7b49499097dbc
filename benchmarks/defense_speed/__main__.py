"""Measure what a training step costs under each defense.

PYTHONPATH=benchmarks python -m defense_speed            prints the page, and writes benchmarks/defenses.md and .csv
PYTHONPATH=benchmarks python -m defense_speed --quick    once; prints only
"""

from speed.command import Benchmark, run
from training_speed.rows import rows
from training_speed.step_report import table

from defense_speed.contest import heat_of
from defense_speed.contestants import CONTESTANTS
from defense_speed.report import REPORT
from defense_speed.workloads import QUICK, WORKLOADS

BENCHMARK = Benchmark(
    title=(__doc__ or "").splitlines()[0],
    variable="DEFENSES",
    file="defenses",
    fewer="rounds",
    workloads=WORKLOADS,
    quick=QUICK,
    contestants=CONTESTANTS,
    heat_of=heat_of,
    rows=rows,
    page=REPORT.page,
    table=table,
)

if __name__ == "__main__":
    run(BENCHMARK)
