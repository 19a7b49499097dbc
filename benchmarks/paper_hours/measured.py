"""What `gpu.csv` measured of a kind of work on one H100, beside what it would take there on paper."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from leaklab.calibrate import BATCH, CLIENTS
from leaklab.observations.client_requirements import samples_seen
from leaklab.planning.devices import work_of
from leaklab.planning.plan import Job
from leaklab.planning.resources import cost
from leaklab.specs.attack import AttackSpec
from leaklab.specs.training import TrainSpec
from paper_hours.counting import Count
from paper_hours.hours import decider, seconds_of
from paper_hours.kinds import Kind, words_of

FILE = Path("benchmarks/gpu.csv")


def compared(jobs: Iterable[Job], kinds: Mapping[str, Kind], file: Path = FILE) -> list[dict[str, object]]:
    """Return a line for each measured kind of work: seconds of a unit on paper and measured.

    A measurement takes the job of its kind that costs most, and so does this. It has one update, or four clients, side
    by side: as many share a launch here. The milliseconds of a unit are those that were measured, which are its factor
    times what the plan said at that time.
    """
    units = pd.read_csv(file).dropna().set_index("work")["milliseconds"].to_dict()
    rows: dict[str, dict[str, object]] = {}
    for job in sorted(jobs, key=lambda one: -cost(one.spec).seconds):
        work = work_of(job.spec)
        if work in units and work not in rows and _is_cut_short(job):
            rows[work] = {"work": work, **_line(job, kinds[words_of(job.spec)], float(units[work]) / 1e3)}
    return [rows[work] for work in sorted(rows)]


def slower(rows: Sequence[Mapping[Any, Any]]) -> float:
    """Return how many times as long as assumed a launch took, in the median of the kinds that launches decide."""
    return median(float(str(row["measured_over_paper"])) for row in rows if row["decided_by"] == "launches")


def _is_cut_short(job: Job) -> bool:
    if isinstance(job.spec, TrainSpec):
        return job.spec.backbone is None
    return isinstance(job.spec, AttackSpec) and job.spec.generator is None and cost(job.spec).evaluations > 0


def _line(job: Job, kind: Kind, measured: float) -> dict[str, object]:
    count = Count(kind.flop, kind.bytes, kind.kernels * _launches(job, kind))
    bounds = seconds_of(count, kind.precision)
    return {
        "kind": kind.kind, "paper_milliseconds": max(bounds) * 1e3, "decided_by": decider(bounds),
        "measured_milliseconds": measured * 1e3, "measured_over_paper": measured / max(bounds),
        "measured_teraflop_per_second": kind.flop / measured / 1e12,
    }  # fmt: skip


def _launches(job: Job, kind: Kind) -> float:
    """Return how many times as many launches a unit had when it was measured, with fewer side by side."""
    if isinstance(job.spec, TrainSpec):
        return max(1.0, kind.together / CLIENTS)
    assert isinstance(job.spec, AttackSpec)
    samples = samples_seen(job.spec.capture)
    return kind.together * samples / min(BATCH, samples)
