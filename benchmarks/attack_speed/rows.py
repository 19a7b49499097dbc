"""From measurements to the figures of a report: medians and ratios."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median

from speed import rows as speed_rows
from speed.contest import Results
from speed.contestants import Contestant

from attack_speed.runs import Measurement
from attack_speed.workloads import Workload


@dataclass(frozen=True)
class Figures:
    """Medians over the repeats.

    Attributes:
        cpu_ms: processor milliseconds per iteration and trial.
        rate: iterations of a trial per processor second.
        attack: processor seconds of a whole attack per trial, or per trial that reached the workload's target.
        iterations: done in a run, summed over the trials.
        reached: trials that came as close as the target.
        objective: mean over the trials at the common points.
        found: smallest value that a trial has seen, mean over the trials.
        psnr: of the trials' last images, median over them in dB.
        ratio: ``cpu_ms`` as a multiple of ours, None without ours.
        attack_ratio: the same of ``attack``.
    """

    cpu_ms: float
    rate: float
    attack: float
    iterations: int
    reached: int
    objective: float
    found: float
    psnr: float | None
    ratio: float | None
    attack_ratio: float | None


Row = speed_rows.Row[Workload, Figures]


def rows(results: Results, workloads: Sequence[Workload], contestants: Sequence[Contestant]) -> list[Row]:
    """Return a row for each contestant of each workload, in order; an iteration is a gradient at least."""
    return speed_rows.rows(results, workloads, contestants, lambda runs: _cpu_ms(runs) / 1e3, _figures)


def _figures(
    workload: Workload, runs: Sequence[Measurement], ours: Sequence[Measurement] | None, gflops: float
) -> Figures:
    cpu, attack = _cpu_ms(runs), _attack(runs, workload)
    return Figures(
        cpu_ms=cpu,
        rate=1e3 / cpu,
        attack=attack,
        iterations=int(median(run.iterations for run in runs)),
        reached=int(median(run.reached for run in runs)),
        objective=mean(runs[-1].objective),
        found=median(run.found for run in runs),
        psnr=runs[-1].psnr,
        ratio=cpu / _cpu_ms(ours) if ours else None,
        attack_ratio=attack / _attack(ours, workload) if ours else None,
    )


def _cpu_ms(runs: Sequence[Measurement]) -> float:
    return median(1e3 * run.cpu / run.iterations for run in runs)


def _attack(runs: Sequence[Measurement], workload: Workload) -> float:
    return median(run.attack_cpu / (workload.trials if workload.target is None else run.reached) for run in runs)
