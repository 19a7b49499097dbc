"""From measurements to the figures of a report: medians, ratios, fractions of the peak."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from speed import rows as speed_rows
from speed.contest import Results
from speed.contestants import Contestant

from training_speed.runs import Measurement
from training_speed.workloads import Workload


@dataclass(frozen=True)
class Figures:
    """Medians over the repeats.

    Attributes:
        cpu_us: processor microseconds per client step.
        wall_us: the same on the clock.
        startup: seconds on the clock before the measured rounds.
        gflops: GFLOP per processor second.
        of_peak: the same as a fraction of the measured peak.
        ratio: processor time as a multiple of ours, None without ours.
    """

    cpu_us: float
    wall_us: float
    startup: float
    gflops: float
    of_peak: float
    ratio: float | None


Row = speed_rows.Row[Workload, Figures]


def rows(results: Results, workloads: Sequence[Workload], contestants: Sequence[Contestant]) -> list[Row]:
    """Return a row for each contestant of each workload, in order."""

    def figures(
        workload: Workload, runs: Sequence[Measurement], ours: Sequence[Measurement] | None, gflops: float
    ) -> Figures:
        return Figures(
            cpu_us=_cpu_us(runs),
            wall_us=median(1e6 * run.wall / run.steps for run in runs),
            startup=median(run.startup_wall for run in runs),
            gflops=gflops,
            of_peak=gflops / results.peak,
            ratio=_cpu_us(runs) / _cpu_us(ours) if ours else None,
        )

    return speed_rows.rows(results, workloads, contestants, lambda runs: _cpu_us(runs) / 1e6, figures)


def _cpu_us(runs: Sequence[Measurement]) -> float:
    return median(1e6 * run.cpu / run.steps for run in runs)
