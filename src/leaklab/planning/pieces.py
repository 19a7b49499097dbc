"""Long jobs in pieces: how many, on the device at hand, and what each asks a scheduler for.

A piece of an attack is some of its chunks of trials; all pieces run side by side, and the job puts together what they
kept. Where a chunk alone takes too long, a chain of pieces searches for it, each for some time from where the one
before left off. A piece of a training is a stretch of rounds up to a checkpoint; one follows the other, and the last is
the job itself. Either way the job goes on from a checkpoint as a killed one does, so its bytes and its name are the
same.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import singledispatch
from math import ceil
from pathlib import Path

from leaklab.planning.devices import Device
from leaklab.planning.plan import Job, Plan
from leaklab.planning.resources import cost, minutes_of
from leaklab.records.errors import UserError
from leaklab.records.files import read_json
from leaklab.records.record import canonical_json
from leaklab.records.traits import attack_traits
from leaklab.specs.attack import ATTACKS, TRIALS_TOGETHER, AttackSpec
from leaklab.specs.base import Spec
from leaklab.specs.text import TextAttackSpec
from leaklab.specs.training import TrainSpec

VARIABLE = "LEAKLAB_PIECE_MINUTES"
MINUTES = 30.0
FILE = "pieces.json"
# they hang on one another, and Snakemake follows such a chain by recursion
LONGEST_CHAIN = 100


def shorter_trainings(plan: Plan) -> dict[str, TrainSpec]:
    """Return run -> the longest of the same trainings with fewer rounds, from which it goes on.

    The rounds that several captured states have in common are trained once; ids and bytes are those of a training that
    begins at the first round.
    """
    same: dict[str, list[tuple[int, bool, str, TrainSpec]]] = {}
    for name, job in plan.jobs.get(TrainSpec.stage, {}).items():
        if isinstance(job.spec, TrainSpec) and job.spec.goes_on:
            one = (job.spec.rounds_done, bool(job.spec.sends), name, job.spec)
            same.setdefault(canonical_json(job.spec.whole), []).append(one)
    found: dict[str, TrainSpec] = {}
    for trainings in same.values():
        ordered = sorted(trainings, key=lambda one: one[:3])
        for place, (rounds, _, name, _) in enumerate(ordered):
            # of those that stop in one round, who keeps messages has to do that round as well
            before = [one for one in ordered[:place] if one[0] < rounds]
            # and the one without is what others go on from, if there is one
            nearest = [one for one in before if one[0] == before[-1][0]] if before else []
            found |= {name: nearest[0][3]} if nearest else {}
    return found


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
    return int(told_of(job, device)["pieces"])


def told_of(job: Job, device: Device) -> dict[str, int]:
    """Return what the pieces of a job are told of it: their number, and of chains how long one is and for how long.

    Raises:
        UserError: see ``pieces``.
    """
    kept = job.folder / FILE
    if kept.is_file():
        return kept_in(kept)
    if (job.folder / "run.json").is_file():
        return {"pieces": 1}
    number = pieces_of(job.spec, device)
    chunks = chunks_of(job.spec)
    chain = max(1, number // chunks) if chunks else 1
    chained = {"chain": chain, "seconds": ceil(device.seconds(job.spec) / number)} if chain > 1 else {}
    return {"pieces": number, **chained}


def kept_in(file: Path) -> dict[str, int]:
    """Return what the pieces of a job that was begun are told.

    Raises:
        UserError: the file is damaged.
    """
    content = read_json(file)
    found = content if isinstance(content, dict) else {}
    sound = all(type(value) is int and value > 0 for value in found.values()) and "pieces" in found
    if not sound or ("chain" in found) != ("seconds" in found) or found["pieces"] % found.get("chain", 1):
        raise UserError(f"{file} does not say in how many pieces the job was begun: delete the folder {file.parent}")
    return dict(found)


def pieces_of(spec: Spec, device: Device) -> int:
    """Return into how many pieces a job would be cut that has not begun."""
    wanted, chunks = ceil(device.seconds(spec) / (60 * piece_minutes())), chunks_of(spec)
    resumed = any(attack_traits(name).keeps_state for room, name in spec.executed_plugins() if room == ATTACKS)
    if resumed and wanted > chunks > 0:
        return chunks * min(LONGEST_CHAIN, ceil(wanted / chunks))
    most = chunks if chunks and cost(spec).evaluations else min(LONGEST_CHAIN, stretches_of(spec))
    return max(1, min(most, wanted))


@singledispatch
def chunks_of(spec: Spec) -> int:
    """Return into how many parts a job can be cut that are done side by side: chunks of trials; 0 for other jobs."""
    return 0


@chunks_of.register
def _chunks_of_attack(spec: AttackSpec) -> int:
    return ceil(spec.capture.trials / TRIALS_TOGETHER)


@chunks_of.register
def _chunks_of_attack_on_text(spec: TextAttackSpec) -> int:
    return spec.capture.trials  # sentences are read one by one


@singledispatch
def stretches_of(spec: Spec) -> int:
    """Return into how many parts a job can be cut that follow one another: the rounds of a training."""
    return 1


@stretches_of.register
def _stretches_of_training(spec: TrainSpec) -> int:
    return spec.rounds_done


@dataclass(frozen=True)
class Cut:
    """How a job is cut, and the run times to ask a scheduler for.

    Attributes:
        pieces: their number; 1 for a job that is done whole.
        chain: of an attack's pieces, how many follow one another; all chains run side by side.
        told: what each piece is told of them.
        seconds: that each piece is expected to take, at most.
        minutes: to ask for, for each piece.
        minutes_of_rest: to ask for, for the job itself: the last piece of a training, or what puts those of an attack
            together.
        more_jobs: that Snakemake runs beside the job itself.
    """

    pieces: int
    chain: int
    told: Mapping[str, int]
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
        told = told_of(job, device)
        number = told["pieces"]
        each = device.seconds(job.spec) / number
        apart = chunks_of(job.spec) > 0 and number > 1
        more = number + 1 if apart else number - 1  # what joins the pieces of an attack is a job too
        return cls(number, told.get("chain", 1), told, each, minutes_of(each), minutes_of(0.0 if apart else each), more)
