"""What the workers share: what they are started for, and the report that the runner reads."""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from speed.costs import one_thread

from leaklab.observations.base import Knowledge, Observation
from time_to_picture.cases import CASES, Case, load
from time_to_picture.workers.meter import Meter


@dataclass(frozen=True)
class Job:
    """What a worker is started for.

    Attributes:
        case_name: key of ``CASES``.
        attack: which of the worker's attacks.
        updates: numbers of the updates that it gets, all at once.
        folder: what ``cases.save`` wrote.
        cap: processor seconds per update.
        patience: see ``Meter``.
        smoothing: weight of breaching's total variation; None for its own.
    """

    case_name: str
    attack: str
    updates: tuple[int, ...]
    folder: str
    cap: float
    patience: float
    smoothing: float | None = None

    @property
    def case(self) -> Case:
        """What is attacked."""
        return next(case for case in CASES if case.name == self.case_name)

    def to_json(self) -> str:
        """Return the text that a worker gets."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Job":
        """Read what ``to_json`` wrote."""
        fields = json.loads(text)
        return cls(**fields | {"updates": tuple(fields["updates"])})


@dataclass(frozen=True)
class Outcome:
    """What an attack left.

    Attributes:
        meter: that it was watched by.
        prior: processor seconds per update that its prior took before the clock began.
    """

    meter: Meter
    prior: float = 0.0


Attacked = Callable[[Job, Observation, Knowledge, Callable[[], Meter]], Outcome]
"""Attacks the updates of a job: warms up, makes the meter, which starts the clock, and searches."""


def labels_of(observation: Observation, knowledge: Knowledge) -> list[int]:
    """Return the labels [B] of a single update, which are known by its number."""
    label = knowledge.require("labels")[observation.trials[0]]
    return label if isinstance(label, list) else [label]


def report(job: Job, attacked: Attacked) -> dict[str, Any]:
    """Return what came of a job, by the numbers of its updates."""
    observation, knowledge, images = load(Path(job.folder))
    rows = list(job.updates)
    outcome = attacked(job, observation.select(rows), knowledge, partial(Meter, images[rows], job.cap, job.patience))
    runs = outcome.meter.report()
    return {"prior": outcome.prior, "runs": [run | {"update": rows[run["update"]]} for run in runs]}


def measure(attacked: Attacked) -> None:
    """Do the job in the first argument on one thread, and print one line of JSON."""
    one_thread()
    print(json.dumps(report(Job.from_json(sys.argv[1]), attacked)), flush=True)
