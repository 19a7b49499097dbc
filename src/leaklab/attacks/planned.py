"""From the spec of an attack to its reconstruction."""

from dataclasses import replace
from functools import partial

from leaklab.attacks.adaptive.base import Transform
from leaklab.attacks.base import Attack, Budget, Reconstruction
from leaklab.attacks.generative import GenerativeAttack
from leaklab.models.generators.base import Generator
from leaklab.observations.base import Knowledge, Observation
from leaklab.records import plugins
from leaklab.records.attack_spec import AttackSpec
from leaklab.records.streams import stream


def attacked(
    spec: AttackSpec, observation: Observation, knowledge: Knowledge, device: str, generator: Generator | None
) -> Reconstruction:
    """Return what the attack, after its transform, makes of an observation: on the CPU, images on the [0, 1] scale.

    Args:
        spec: which attack, transform and budget.
        observation: some or all trials of the capture.
        knowledge: what the threat model grants.
        device: where the attack works.
        generator: for attacks that search among its images, else None.

    Raises:
        UserError: see ``Transform.prepare`` and ``Attack.reconstruct``.
    """
    transform: Transform = plugins.load("attacks/adaptive", spec.transform.name, spec.transform.settings)
    attack = _attack(spec, generator)
    prepared, scale = transform.prepare(observation.to(device), knowledge)
    budget = Budget(spec.iterations, spec.restarts)
    streams = partial(stream, spec.seed, "attack")
    found = attack.reconstruct(prepared, knowledge, budget, streams, transform.distance)
    unit = spec.capture.on_unit_range
    return replace(found, images=unit(found.images), candidates=unit(found.candidates), scale=scale.cpu()).cpu()


def _attack(spec: AttackSpec, generator: Generator | None) -> Attack:
    if generator is None:
        plain: Attack = plugins.load("attacks", spec.attack.name, spec.attack.settings)
        return plain
    generative: GenerativeAttack = plugins.load("attacks", spec.attack.name, spec.attack.settings)
    return generative.using(generator)
