"""Measure the attack engine beside a plain loop and breaching; ``make bench`` runs this too.

make bench                        everything; writes benchmarks/attacks.md and .csv
make bench ATTACKS=--quick        without reconstructions, once, few iterations; prints only
"""

from speed.command import Benchmark, run

from attack_speed.contest import heat_of
from attack_speed.contestants import CONTESTANTS
from attack_speed.report import page, table
from attack_speed.rows import rows
from attack_speed.workloads import QUICK, WORKLOADS

BENCHMARK = Benchmark(
    title=(__doc__ or "").splitlines()[0],
    variable="ATTACKS",
    file="attacks",
    fewer="iterations",
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
