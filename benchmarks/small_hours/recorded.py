"""What every distinct job of the scale took: by its record, or its share of what its items took."""

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leaklab.planning.plan import Job, Plan
from leaklab.planning.resources import cost
from leaklab.provenance.packing import SUFFIX
from leaklab.records.config import Scale
from leaklab.report.site.publication import Cost
from leaklab.specs.base import RUNS

SCALE: Scale = "small"
RECORD, ROUNDS = "run.json", 200
Records = Mapping[str, dict[str, Any]]
"""Path of a record below the checkout -> its content."""


@dataclass(frozen=True)
class Spent:
    """What one job took.

    Attributes:
        job: of the plan.
        items: that need it.
        seconds: of a processor.
        wall_seconds: of the job, on a machine that others use too; None where it has no record here.
        evaluations: of an attack's loss.
        recorded: whether the seconds are those of its record, not a share.
    """

    job: Job
    items: tuple[str, ...]
    seconds: float
    wall_seconds: float | None
    evaluations: int
    recorded: bool


def recorded(results: Path) -> dict[str, dict[str, Any]]:
    """Return the records of runs in the archives beside the tables of ``results/<scale>``, each once."""
    found: dict[str, dict[str, Any]] = {}
    for archive in sorted(results.glob(f"*/*{SUFFIX}")):
        with zipfile.ZipFile(archive) as packed:
            for name in packed.namelist():
                place = Path(name)
                if place.is_relative_to(RUNS) and (place.name == RECORD or place.match("piece-*.json")):
                    found[name] = json.loads(packed.read(name))
    return found


def hours_of(plan: Plan, costs: Mapping[str, Cost], records: Records) -> list[Spent]:
    """Return what each job of the items with published costs took, each job once.

    Archives hold no records of items that are made of sweeps and checks alone. What such an item took beyond the jobs
    with records is shared out among the others in proportion to the plan's estimates; jobs of several items are scaled
    to the sum of one after the other until all sums hold (iterative proportional fitting).

    Args:
        plan: of the scale.
        costs: item -> what it took.
        records: see ``recorded``.
    """
    items = {item.key: plan.jobs_of(SCALE, item) for item in plan.ready(SCALE) if item.key in costs}
    jobs = {job.folder.as_posix(): job for own in items.values() for job in own}
    known = {folder: _of_records(folder, records) for folder in jobs if f"{folder}/{RECORD}" in records}
    shares = {folder: max(1.0, cost(job.spec).seconds) for folder, job in jobs.items() if folder not in known}
    left = {
        item: (costs[item].cpu_seconds or 0.0) - sum(known[f][0] for f in map(_folder, own) if f in known)
        for item, own in items.items()
    }
    shared = fitted(shares, {item: [f for f in map(_folder, own) if f in shares] for item, own in items.items()}, left)
    members: dict[str, list[str]] = {folder: [] for folder in jobs}
    for item, own in items.items():
        for job in own:
            members[_folder(job)].append(item)
    return [
        Spent(job, tuple(members[folder]), *known.get(folder, (shared.get(folder, 0.0), None, 0)), folder in known)
        for folder, job in jobs.items()
    ]


def fitted(
    weights: Mapping[str, float], members: Mapping[str, list[str]], sums: Mapping[str, float]
) -> dict[str, float]:
    """Return weights scaled group by group, again and again, to the sums of the groups; a negative sum counts as 0.

    Args:
        weights: of each member, positive.
        members: group -> its members; some are in several groups.
        sums: of each group.
    """
    found = dict(weights)
    for _ in range(ROUNDS):
        for group, own in members.items():
            total = sum(found[one] for one in own)
            for one in own if total > 0 else ():
                found[one] *= max(0.0, sums[group]) / total
    return found


def _folder(job: Job) -> str:
    return job.folder.as_posix()


def _of_records(folder: str, records: Records) -> tuple[float, float, int]:
    """Return the seconds of processor and wall, and the evaluations, of a run and its pieces."""
    own = [content for path, content in records.items() if path.startswith(f"{folder}/")]
    evaluations = records[f"{folder}/{RECORD}"]["facts"].get("evaluations", 0)
    return sum(one["cpu_seconds"] for one in own), sum(one["wall_seconds"] for one in own), int(evaluations)
