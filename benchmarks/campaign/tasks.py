"""The jobs of a scale as tasks of known length: attacks and trainings in the pieces in which a cluster gets them."""

from collections.abc import Mapping
from dataclasses import dataclass

from leaklab.planning.devices import Device
from leaklab.planning.pieces import Cut
from leaklab.planning.plan import Job, Plan
from leaklab.records.config import Scale
from leaklab.specs.attack import AttackSpec
from leaklab.specs.text import TextAttackSpec


@dataclass(frozen=True)
class Task:
    """One job of a scheduler.

    Attributes:
        seconds: that it takes on a worker.
        needs: names of the tasks that come before it.
    """

    seconds: float
    needs: tuple[str, ...] = ()


def tasks_of(plan: Plan, scale: Scale, device: Device) -> dict[str, Task]:
    """Return all tasks of a scale by name, each after those that it needs; tables and figures take no time here."""
    found: dict[str, Task] = {}
    for item in plan.ready(scale):
        for job in plan.jobs_of(scale, item):
            for name, task in _pieces(job, device).items():
                found.setdefault(name, task)
    return found


def _pieces(job: Job, device: Device) -> Mapping[str, Task]:
    needs = tuple("/".join(read) for read in job.read_runs)
    cut, folder = Cut.of(job, device), "/".join(job.folder.parts[-2:])
    if isinstance(job.spec, AttackSpec | TextAttackSpec) and cut.pieces > 1:
        pieces: dict[str, Task] = {}
        for number in range(cut.pieces):
            before = tuple(pieces)[-1:] if number % cut.chain else needs
            pieces[f"{folder}/piece-{number}"] = Task(cut.seconds, before)
        last = tuple(pieces)[cut.chain - 1 :: cut.chain]
        return {**pieces, f"{folder}/joined": Task(0.0, last), folder: Task(0.0, (f"{folder}/joined",))}
    found: dict[str, Task] = {}
    for left in range(cut.pieces - 1, 0, -1):
        found[f"{folder}/left-{left}"] = Task(cut.seconds, tuple(found)[-1:] or needs)
    return {**found, folder: Task(cut.seconds, tuple(found)[-1:] or needs)}
