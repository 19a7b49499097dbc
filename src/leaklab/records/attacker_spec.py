"""What the job of an attack is told: the attack's spec without its capture.

The capture's spec names the private samples and the seeds of the clients' draws. What a server may know of a capture
stands in the facts of its observation. The run id is the hash of the whole spec.

The fields are declared a second time here: the records of published results hash the module of ``AttackSpec``. A test
holds both declarations equal.
"""

from typing import Literal

from pydantic import Field

from leaklab.records.attack_spec import AttackSpec
from leaklab.records.bounds import Count, Seed
from leaklab.records.generator_spec import GeneratorSpec
from leaklab.records.record import Component, Record
from leaklab.records.specs import Spec
from leaklab.records.text_specs import TextAttackSpec


class AttackerSpec(Record):
    """``AttackSpec`` without the capture."""

    attack: Component
    transform: Component = Component(name="none")
    iterations: Count
    restarts: Count = Field(default=1, le=1000)
    generator: GeneratorSpec | None = None
    seed: Seed = 0


class TextAttackerSpec(Record):
    """``TextAttackSpec`` without the capture."""

    attack: Component
    labels: Literal["searched", "inferred", "known"] = "searched"
    iterations: Count = 1000
    restarts: Count = Field(default=1, le=1000)
    seed: Seed = 0


def attacker_of(attack: AttackSpec) -> AttackerSpec:
    """Return what the attacker of images is told."""
    return AttackerSpec.model_validate(attack.model_dump(exclude={"capture"}))


def told(spec: Spec) -> Record:
    """Return what the job of a run is told: an attacker nothing of the capture, every other step its spec."""
    if isinstance(spec, AttackSpec):
        return attacker_of(spec)
    if isinstance(spec, TextAttackSpec):
        return TextAttackerSpec.model_validate(spec.model_dump(exclude={"capture"}))
    return spec
