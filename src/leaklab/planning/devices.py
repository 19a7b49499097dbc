"""What jobs take on the device at hand: the costs known here, times what ``leaklab calibrate`` measured."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, singledispatch
from pathlib import Path
from typing import Any

from leaklab.planning.plan import Job, Plan
from leaklab.planning.resources import cost
from leaklab.planning.work import SOURCE
from leaklab.records.errors import UserError
from leaklab.records.files import read_json, write_json
from leaklab.records.traits import attack_traits, model_traits
from leaklab.specs.attack import AttackSpec, LandscapeSpec, ProjectionSpec
from leaklab.specs.base import Spec
from leaklab.specs.text import TextAttackSpec
from leaklab.specs.training import TrainSpec

FILE = Path("data/calibration.json")
DIGITS = 16
LARGEST = 1e9
"""No device is slower than the measured processor by such a factor."""


@dataclass(frozen=True)
class Device:
    """Where training and attacks run.

    Attributes:
        kind: ``cpu`` or ``cuda``.
        name: of the processor or GPU that was measured; empty where none was.
        factors: kind of work (``work_of``) -> seconds there as a multiple of the costs known here, which hold for one
            thread of the processor on which they were measured.
    """

    kind: str = "cpu"
    name: str = ""
    factors: Mapping[str, float] = field(default_factory=dict)

    def seconds(self, spec: Spec) -> float:
        """Return the estimated seconds of a job, at most."""
        return cost(spec).seconds * self.factor(spec)

    def factor(self, spec: Spec) -> float:
        """Return the factor of a job's work; of work that was not measured, the worst of its stage that was."""
        kind = work_of(spec)
        return self._of(kind) if kind else 1.0

    def _of(self, work: str) -> float:
        stage = work.partition("/")[0]
        alike = [value for name, value in self.factors.items() if name.partition("/")[0] == stage]
        return self.factors.get(work, max(alike, default=1.0))


def runs_there(spec: Spec) -> bool:
    """Tell whether a job runs on the device; all others take a processor thread, or next to no time."""
    return bool(work_of(spec))


@singledispatch
def work_of(spec: Spec) -> str:
    """Return the kind of work of a job, such as ``train/mlp``: jobs of one kind change by the same factor.

    Empty for what does not run on the device.
    """
    return ""


@work_of.register
def _work_of_training(spec: TrainSpec) -> str:
    return f"train/{spec.model.name}"


@work_of.register
def _work_of_attack(spec: AttackSpec) -> str:
    if spec.generator is not None:  # a candidate is a gradient of the victim, as a step of training is
        return f"train/{spec.capture.model.name}"
    return f"attack/{spec.capture.model.name}/{spec.attack.name}"


@work_of.register
def _work_of_landscape(spec: LandscapeSpec) -> str:
    return work_of(spec.attack)


@work_of.register
def _work_of_projection(spec: ProjectionSpec) -> str:
    return "attack/a generator's image"  # not measured


@work_of.register
def _work_of_text(spec: TextAttackSpec) -> str:
    return "attack/a sentence"  # not measured


def measured_device(kind: str, file: Path = FILE) -> Device:
    """Return a device with what was measured for it, if anything.

    Raises:
        UserError: the file of the measurements is damaged.
    """
    found = read_measured(file).get(kind)
    if found is None:
        return Device(kind)
    units = found.get("units", {})
    factors = {work: value for work, value in found["factors"].items() if units.get(work) == unit_of(work)}
    return Device(kind, str(found["name"]), factors) if factors else Device(kind)


@cache
def configured_device(kind: str) -> Device:
    """Return ``measured_device``, read once in a call."""
    return measured_device(kind)


def read_measured(file: Path = FILE) -> dict[str, Any]:
    """Return kind of device -> its name and factors; empty where nothing was measured.

    Raises:
        UserError: the file is damaged.
    """
    if not file.is_file():
        return {}
    content = read_json(file)
    entries = content.values() if isinstance(content, dict) else [None]
    if not all(_sound(entry) for entry in entries):
        raise UserError(f"{file} is damaged: delete it, and run leaklab calibrate again")
    return dict(content)


def keep_measured(device: Device, file: Path = FILE) -> None:
    """Write what was measured of a device; what was of others stays.

    Raises:
        UserError: the file is damaged.
    """
    units = {work: unit_of(work) for work in device.factors}
    entry = {"name": device.name, "factors": dict(device.factors), "units": units}
    write_json(file, {**read_measured(file), device.kind: entry})


@cache
def unit_of(work: str) -> str:
    """Return a digest of what the plan knows of a kind of work: a factor on other seconds is none on these.

    Empty for a kind of which the plan knows nothing, such as one of a plug-in that is gone.
    """
    _, _, names = work.partition("/")
    model, _, attack = names.partition("/")
    try:
        known = model_traits(model), attack_traits(attack) if attack else None
    except UserError:
        return ""
    return hashlib.sha256(SOURCE.read_bytes() + repr(known).encode()).hexdigest()[:DIGITS]


def _sound(entry: Any) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str) or not entry["name"].isprintable():
        return False
    factors, units = entry.get("factors"), entry.get("units", {})
    return (
        isinstance(factors, dict)
        and isinstance(units, dict)
        and all(
            isinstance(value, int | float) and 0 < value < LARGEST and work.isprintable()
            for work, value in factors.items()
        )
    )


# Which job goes first where several may begin: the one with the longest chain of work behind it.

RESULT = 10**6
"""Rank of tables and figures, above all others: they take seconds, and somebody waits for them."""

Key = tuple[str, str]


class Ranks:
    """The minutes of the longest chain of jobs that begins with a job, rounded up."""

    def __init__(self, plan: Plan, device: Device) -> None:
        """Rank all jobs of a plan by what they take on a device."""
        self._plan, self._device = plan, device

    def of(self, stage: str, name: str) -> int:
        """Return the rank of a run, below ``RESULT``."""
        return min(RESULT - 1, 1 + int(self._seconds[stage, name] / 60))

    def of_dataset(self, name: str) -> int:
        """Return the rank of a prepared data set: that of the first run that reads it; 0 if none does."""
        reading = [key for key, job in self._jobs.items() if job.dataset == name]
        return max((self.of(*key) for key in reading), default=0)

    @cached_property
    def _jobs(self) -> Mapping[Key, Job]:
        return {(stage, name): job for stage, jobs in self._plan.jobs.items() for name, job in jobs.items()}

    @cached_property
    def _seconds(self) -> dict[Key, float]:
        readers: dict[Key, list[Key]] = {key: [] for key in self._jobs}
        for key, job in self._jobs.items():
            for read in job.read_runs:
                readers[read].append(key)
        found: dict[Key, float] = {}

        def longest(key: Key) -> float:
            if key not in found:
                behind = max((longest(reader) for reader in readers[key]), default=0.0)
                found[key] = self._device.seconds(self._jobs[key].spec) + behind
            return found[key]

        for key in self._jobs:
            longest(key)
        return found
