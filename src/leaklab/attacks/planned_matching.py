"""From the spec of an attack on latents to the loss that it searches, as a function of the latent."""

from typing import Protocol, runtime_checkable

from torch import Tensor

from leaklab.attacks.adaptive.base import Transform
from leaklab.attacks.latent_matching import LatentMatching
from leaklab.attacks.matching import Distance
from leaklab.models.generators.base import Generator
from leaklab.observations.base import Knowledge, Observation
from leaklab.records import plugins
from leaklab.records.attack_spec import AttackSpec
from leaklab.records.errors import UserError


@runtime_checkable
class LatentAttack(Protocol):
    """An attack with its generator that can show the loss which it minimises."""

    def matching(
        self, observation: Observation, knowledge: Knowledge, distance: Distance | None = None
    ) -> tuple[LatentMatching, Tensor]:
        """Return the loss of latents, one row per private image, and the inferred labels [T, B]."""
        ...


def planned_matching(
    spec: AttackSpec,
    observation: Observation,
    knowledge: Knowledge,
    generator: Generator,
    distance: Distance | None = None,
) -> LatentMatching:
    """Return the loss that the attack minimises after its transform.

    Args:
        spec: which attack and transform.
        observation: of the capture, on the device where the loss is to be computed.
        knowledge: what the threat model grants.
        generator: frozen; makes the images of latents.
        distance: another one than the attack's own, on the same prepared observation.

    Raises:
        UserError: the attack searches no latents; see also ``Transform.prepare``.
    """
    transform: Transform = plugins.load("attacks/adaptive", spec.transform.name, spec.transform.settings)
    attack = plugins.load("attacks", spec.attack.name, spec.attack.settings).using(generator)
    if not isinstance(attack, LatentAttack):
        raise UserError(f"attack '{spec.attack.name}' shows no loss of latents: choose ggl")
    prepared, _ = transform.prepare(observation, knowledge)
    return attack.matching(prepared, knowledge, distance or transform.distance)[0]
