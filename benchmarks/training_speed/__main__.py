"""Measure the training engine beside plain loops and peers; ``make bench`` runs this.

make bench                        everything; writes benchmarks/training.md and .csv
make bench BENCH=--quick          some workloads, once, few rounds; prints only
make bench BENCH="--workloads w2 --contestants ours plain --output /tmp/bench"
"""

from speed.command import Benchmark, run

from training_speed.contest import heat_of
from training_speed.contestants import CONTESTANTS
from training_speed.report import page, table
from training_speed.rows import rows
from training_speed.workloads import QUICK, WORKLOADS

BENCHMARK = Benchmark(
    title=(__doc__ or "").splitlines()[0],
    variable="BENCH",
    file="training",
    fewer="rounds",
    workloads=WORKLOADS,
    quick=QUICK,
    contestants=CONTESTANTS,
    heat_of=heat_of,
    rows=rows,
    page=page,
    table=table,
)

if __name__ == "__main__":
    run(BENCHMARK)
