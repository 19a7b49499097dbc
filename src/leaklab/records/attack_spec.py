"""Specs of an attack on captured updates and of its scores."""

from pydantic import Field

from leaklab.records.bounds import Count, Distinct, Seed
from leaklab.records.capture_spec import CaptureSpec
from leaklab.records.generator_spec import GeneratorSpec
from leaklab.records.record import Component, Record


class AttackerSpec(Record):
    """What the job of an attack is told of it: an ``AttackSpec`` without the capture.

    Attributes:
        transform: ``none`` for an attack that takes the update as it comes, else a defense-aware transform
            (``attacks/adaptive/``).
        iterations: largest number of outer iterations per start.
        restarts: largest number of starts; the best one is chosen by the attack's own matching loss.
        generator: prior of a generative attack, else None.
    """

    attack: Component
    transform: Component = Component(name="none")
    iterations: Count
    restarts: Count = Field(default=1, le=1000)
    generator: GeneratorSpec | None = None
    seed: Seed = 0


class AttackSpec(AttackerSpec):
    """One attack on all trials of a capture."""

    capture: CaptureSpec


class ScoreSpec(Record):
    """The metrics of one attack's reconstructions."""

    attack: AttackSpec
    metrics: Distinct[str]
