"""Measure what a local step of HyperFL and of its baselines costs.

PYTHONPATH=benchmarks python -m algorithm_speed          prints the page, and writes benchmarks/algorithms.md and .csv
PYTHONPATH=benchmarks python -m algorithm_speed --quick  once; prints only
"""

from speed.command import Benchmark, run
from training_speed.rows import rows
from training_speed.step_report import table

from algorithm_speed.contest import heat_of
from algorithm_speed.contestants import CONTESTANTS
from algorithm_speed.report import REPORT
from algorithm_speed.workloads import QUICK, WORKLOADS

BENCHMARK = Benchmark(
    title=(__doc__ or "").splitlines()[0],
    variable="ALGORITHMS",
    file="algorithms",
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
