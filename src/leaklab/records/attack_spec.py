"""Specs of an attack on captured updates and of its scores."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from leaklab.records.bounds import Count, Distinct, Seed
from leaklab.records.capture_spec import CaptureSpec
from leaklab.records.generator_spec import GENERATORS, GeneratorSpec
from leaklab.records.record import Component, Plugin, Record
from leaklab.records.spec_plugins import reads_the_update
from leaklab.records.specs import AttackOn, Code, Judged, Spec

ATTACKS, TRANSFORMS = "attacks", "attacks/adaptive"
TRIALS_TOGETHER = 10
"""Trials per chunk of an attack, which are attacked together: the speed per trial is flat from here on, and a killed
job loses at most one chunk."""


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


class AttackSpec(AttackOn, AttackerSpec):
    """One attack on all trials of a capture."""

    stage: ClassVar[str] = "attack"
    rule: ClassVar[str] = "run_attack"
    called: ClassVar[str] = "{capture.dataset}-{attack.name}-{transform.name}-on-{capture.defense.name}"
    rooms: ClassVar[Mapping[str, str]] = {"attack": ATTACKS, "transform": TRANSFORMS}

    capture: CaptureSpec

    def told(self) -> AttackerSpec:
        """Return the spec without the capture, which names the private samples and the seeds of the clients' draws."""
        return AttackerSpec.model_validate(self.model_dump(exclude={self.withheld}))

    def needs(self) -> tuple[Spec, ...]:
        """Return the capture, and the generator if there is one."""
        return *super().needs(), *([self.generator] if self.generator else [])

    def plugins(self) -> tuple[Plugin, ...]:
        """Return the attacked model, attack and transform, and the generator if there is one."""
        return *super().plugins(), *([self.generator.model.in_room(GENERATORS)] if self.generator else [])

    def executed_plugins(self) -> Code:
        """Return those that it names, and the defense, which an attacker who knows it executes."""
        return *super().executed_plugins(), ("defenses", self.capture.defense.name)

    @property
    def adaptive(self) -> str:
        """Name of the transform by which the attack is made to know the defense; empty for none."""
        return "" if self.transform.name == "none" else self.transform.name

    @property
    def printed(self) -> bool:
        """Whether it takes the update as it comes, as attacks of papers do."""
        return not self.adaptive

    @property
    def public_data(self) -> str:
        """What its generator was made from, in words; empty for none."""
        return self.generator.made_from if self.generator else ""


class ScoreSpec(Judged):
    """The metrics of one attack's reconstructions."""

    stage: ClassVar[str] = "score"
    rule: ClassVar[str] = "score_attack"
    block: ClassVar[str] = "attack"

    attack: AttackSpec
    metrics: Distinct[str]

    @property
    def reads_the_update(self) -> bool:
        """Whether one of its metrics needs what the server saw and the attack's generator, besides images."""
        return any(reads_the_update(name) for name in self.metrics)

    def needs(self) -> tuple[Spec, ...]:
        """Return capture and attack, and the generator if a metric reads it."""
        return (*self.attack.needs(), self.attack) if self.reads_the_update else super().needs()

    def plugins(self) -> tuple[Plugin, ...]:
        """Return the metrics, and what capture and attack name if one of them reads the update."""
        read = (*self.attack.capture.plugins(), *self.attack.plugins()) if self.reads_the_update else ()
        return *(("metrics", name, {}) for name in self.metrics), *read
