"""Long jobs in pieces: how many, on the device at hand, and what each asks a scheduler for.

A piece of an attack is some of its chunks of trials; all pieces run side by side, and the job puts together what they
kept. A piece of a training is a stretch of rounds up to a checkpoint; one follows the other, and the last is the job
itself. Either way the job goes on from a checkpoint as a killed one does, so its bytes and its name are the same.
"""

import os
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from leaklab.planning.devices import Device
from leaklab.planning.plan import Job
from leaklab.planning.resources import cost, minutes_of, trials_of
from leaklab.records.attack_spec import AttackSpec
from leaklab.records.errors import UserError
from leaklab.records.files import read_json
from leaklab.records.specs import Spec
from leaklab.records.train_spec import TrainSpec

VARIABLE = "LEAKLAB_PIECE_MINUTES"
MINUTES = 30.0
FILE = "pieces.json"
# attacks/parts.py, which imports torch: what is attacked together cannot be cut
TRIALS_TOGETHER = 10
# of a training: they hang on one another, and Snakemake follows such a chain by recursion
LONGEST_CHAIN = 100


def piece_minutes() -> float:
    """Return the longest that a piece is meant to take, in minutes.

    Raises:
        UserError: the environment variable is no positive number.
    """
    text = os.environ.get(VARIABLE, str(MINUTES))
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise UserError(f"{VARIABLE} is '{text}': set it to minutes above 0, such as 30, or unset it")
    return found


def pieces(job: Job, device: Device) -> int:
    """Return into how many pieces a job is cut.

    A job that was begun keeps its number, whatever is measured or set later, and one that has ended in one stays in
    one: else Snakemake would find other inputs, and do it again.

    Raises:
        UserError: the file that keeps the number is damaged.
    """
    kept = job.folder / FILE
    if kept.is_file():
        return number_in(kept)
    return 1 if (job.folder / "run.json").is_file() else pieces_of(job.spec, device)


def number_in(file: Path) -> int:
    """Return the number of pieces in which a job was begun.

    Raises:
        UserError: the file is damaged.
    """
    content = read_json(file)
    found = content.get("pieces") if isinstance(content, dict) else None
    if type(found) is not int or found < 1:
        raise UserError(f"{file} does not say in how many pieces the job was begun: delete the folder {file.parent}")
    return found


def pieces_of(spec: Spec, device: Device) -> int:
    """Return into how many pieces a job would be cut that has not begun."""
    return max(1, min(_most(spec), ceil(device.seconds(spec) / (60 * piece_minutes()))))


@dataclass(frozen=True)
class Cut:
    """How a job is cut, and the run times to ask a scheduler for.

    Attributes:
        pieces: their number; 1 for a job that is done whole.
        seconds: that each piece is expected to take, at most.
        minutes: to ask for, for each piece.
        minutes_of_rest: to ask for, for the job itself: the last piece of a training, or what puts those of an attack
            together.
        more_jobs: that Snakemake runs beside the job itself.
    """

    pieces: int
    seconds: float
    minutes: int
    minutes_of_rest: int
    more_jobs: int

    @classmethod
    def of(cls, job: Job, device: Device) -> "Cut":
        """Return how a job is cut on a device.

        Raises:
            UserError: see ``pieces``.
        """
        number = pieces(job, device)
        each = device.seconds(job.spec) / number
        apart = isinstance(job.spec, AttackSpec) and number > 1
        more = number + 1 if apart else number - 1  # what joins the pieces of an attack is a job too
        return cls(number, each, minutes_of(each), minutes_of(0.0 if apart else each), more)


def _most(spec: Spec) -> int:
    """Return the most pieces that a job can be cut into."""
    if isinstance(spec, AttackSpec) and cost(spec).evaluations:
        return ceil(trials_of(spec.capture) / TRIALS_TOGETHER)
    # a training that stops at a goal does not say when it ends
    if isinstance(spec, TrainSpec) and spec.goal is None:
        return min(LONGEST_CHAIN, spec.rounds if spec.until is None else spec.until)
    return 1
