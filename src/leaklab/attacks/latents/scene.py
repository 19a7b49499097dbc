"""What a search under a public prior works with: a victim, what it was seen to send, and a generator of its images."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from leaklab.attacks.base import Case, require_finite, require_gradient, victim
from leaklab.attacks.matching.distances import Distance, squared_l2
from leaklab.models.generators.base import Generator
from leaklab.observations.base import Knowledge, Observation


@dataclass(frozen=True)
class Scene:
    """One call of ``reconstruct``, in float64 and on the observation's device.

    Attributes:
        attack: its name, for messages.
        observation: T trials, ``kind`` gradient.
        knowledge: what the threat model grants.
        network: the victim with its weights set; no parameter asks for a gradient.
        generator: frozen; makes images on the [0, 1] scale, or near it.
        as_inputs: images on the [0, 1] scale -> as the victim takes them, same shape.
        distance: see ``matching``.
    """

    attack: str
    observation: Observation
    knowledge: Knowledge
    network: nn.Sequential
    generator: Generator
    as_inputs: Callable[[Tensor], Tensor]
    distance: Distance

    @property
    def observed(self) -> list[Tensor]:
        """The observed gradients, one [T, ...] per parameter in the network's order."""
        return list(self.observation.update.values())

    def means(self) -> Tensor:
        """Return the image of a zero latent of each class, as the victim takes it: [K, C, H, W]."""
        like, classes = self.observed[0], self.generator.num_classes
        zero = like.new_zeros(classes, self.generator.latent_size)
        with torch.no_grad():
            return self.as_inputs(self.generator.generate(zero, torch.eye(classes).to(like)))


def scene_of_case(attack: str, case: Case) -> Scene:
    """Return the scene of an attack, by the squared L2 distance unless the case has another one.

    Raises:
        UserError: there is no generator; else see ``scene_of``.
    """
    return scene_of(attack, case.prior(attack), case.observation, case.knowledge, case.distance or squared_l2)


def scene_of(
    attack: str, generator: Generator, observation: Observation, knowledge: Knowledge, distance: Distance
) -> Scene:
    """Return the scene of an attack; the generator that was given stays as it is.

    Raises:
        UserError: facts are withheld, the observation is no gradient or not finite, or the generator is in training
            state or does not make the victim's images and classes.
    """
    require_gradient(observation, attack)
    require_finite(observation, attack)
    generator.require(tuple(knowledge.require("input_shape", attack)), int(knowledge.require("num_classes", attack)))
    generator.require_frozen()
    observation = observation.in_dtype(torch.float64)
    low, high = knowledge.require("input_range", attack)
    return Scene(
        attack,
        observation,
        knowledge,
        victim(observation, knowledge, attack),
        deepcopy(generator).to(next(iter(observation.update.values()))),
        lambda images: low + (high - low) * images,
        distance,
    )
