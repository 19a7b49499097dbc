"""From measurements to the figures of a report: medians, ratios, fractions of the peak."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from training_speed.contest import Results
from training_speed.contestants import OURS, Contestant
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


@dataclass(frozen=True)
class Row:
    """A contestant in a workload: figures, or the reason why there are none."""

    workload: Workload
    contestant: Contestant
    figures: Figures | None
    reason: str = ""


def rows(results: Results, workloads: Sequence[Workload], contestants: Sequence[Contestant]) -> list[Row]:
    """Return a row for each contestant of each workload, in order."""
    return [
        _row(results, workload, contestant)
        for workload in workloads
        for contestant in contestants
        if known(results, workload, contestant)
    ]


def known(results: Results, workload: Workload, contestant: Contestant) -> bool:
    """Tell whether a contestant took part in a workload, or why it did not."""
    return (workload.name, contestant.name) in results.runs.keys() | results.failures.keys()


def _row(results: Results, workload: Workload, contestant: Contestant) -> Row:
    key = workload.name, contestant.name
    if key in results.failures:
        return Row(workload, contestant, None, results.failures[key])
    runs = results.runs[key]
    cpu = _cpu_us(runs)
    gflops = results.costs[workload.name].flop / cpu / 1e3
    if gflops > results.peak:
        # faster than the processor: the work was not done, whatever the counter says
        return Row(workload, contestant, None, f"void: {gflops:.0f} GFLOP/s are above the peak of {results.peak:.0f}")
    ours = results.runs.get((workload.name, OURS))
    figures = Figures(
        cpu_us=cpu,
        wall_us=median(1e6 * run.wall / run.steps for run in runs),
        startup=median(run.startup_wall for run in runs),
        gflops=gflops,
        of_peak=gflops / results.peak,
        ratio=cpu / _cpu_us(ours) if ours else None,
    )
    return Row(workload, contestant, figures)


def _cpu_us(runs: Sequence[Measurement]) -> float:
    return median(1e6 * run.cpu / run.steps for run in runs)
