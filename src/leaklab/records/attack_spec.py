"""Specs of an attack on captured updates and of its scores."""

from pydantic import Field

from leaklab.records.bounds import Count, Distinct, Seed
from leaklab.records.capture_spec import CaptureSpec
from leaklab.records.generator_spec import GeneratorSpec
from leaklab.records.record import Component, Record


class AttackSpec(Record):
    """One attack on all trials of a capture.

    Attributes:
        transform: ``none`` for the attacker of the paper, else a defense-aware transform (``attacks/adaptive/``).
        iterations: largest number of outer iterations per start.
        restarts: largest number of starts; the best one is chosen by the attack's own matching loss.
        generator: prior of a generative attack, else None.
    """

    capture: CaptureSpec
    attack: Component
    transform: Component = Component(name="none")
    iterations: Count
    restarts: Count = Field(default=1, le=1000)
    generator: GeneratorSpec | None = None
    seed: Seed = 0


class ScoreSpec(Record):
    """The metrics of one attack's reconstructions."""

    attack: AttackSpec
    metrics: Distinct[str]
