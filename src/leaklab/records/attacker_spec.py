"""What the job of an attack is told: the attack's spec without its capture.

The capture's spec names the private samples and the seeds of the clients' draws. What a server may know of a capture
stands in the facts of its observation. The run id is the hash of the whole spec.
"""

from leaklab.records.attack_spec import AttackerSpec, AttackSpec
from leaklab.records.record import Record
from leaklab.records.specs import Spec
from leaklab.records.text_specs import TextAttackerSpec, TextAttackSpec


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
