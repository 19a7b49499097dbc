"""What a transform is: how an attacker who knows the defense prepares the observation, and with which loss."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from leaklab.attacks.labels.head import head
from leaklab.attacks.matching.distances import Distance
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import PRESCRIBED_STEPS, Requirements
from leaklab.records.errors import UserError


class Transform(Protocol):
    """A transform plug-in; a frozen dataclass.

    Attributes:
        requirements: what it asks for besides the attack, and the defenses that it is made for.
        distance: matching loss that goes with it; None leaves an attack its own.
    """

    requirements: ClassVar[Requirements]

    @property
    def distance(self) -> Distance | None:
        """The matching loss that goes with the prepared observation; None leaves an attack its own."""
        ...

    def prepare(self, observation: Observation, knowledge: Knowledge) -> tuple[Observation, Tensor]:
        """Return the observation to attack (kind gradient) and the estimated factor on the update [T].

        Raises:
            UserError: a fact is withheld, or the transform does not fit the observation.
        """
        ...


@runtime_checkable
class InformedTransform(Protocol):
    """A transform whose loss rests on facts: what an item leaves out of its settings is read from the knowledge."""

    def informed(self, knowledge: Knowledge) -> Transform:
        """Return the transform with all that its distance needs.

        Raises:
            UserError: a fact is withheld, or a setting is not what the facts say.
        """
        ...


LearntLaw = tuple[Mapping[str, Any], Mapping[str, Tensor]]
"""A law as plain values and the tensors that these name (``attacks/learnt/laws.py``)."""


@runtime_checkable
class TaughtTransform(Protocol):
    """A transform whose loss is a law that a job before has learnt."""

    def taught(self, description: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Transform:
        """Return the transform with the law that a job wrote down; see ``LearntLaw``."""
        ...


@dataclass(frozen=True)
class Prepared:
    """What an attack is given of some trials.

    Attributes:
        observation: kind gradient.
        scale: [T] factor that was found on the update.
        distance: matching loss that goes with it; None leaves an attack its own.
    """

    observation: Observation
    scale: Tensor
    distance: Distance | None


@dataclass(frozen=True)
class OfOneTrial(ABC):
    """Base of transforms after which every trial is a network of its own.

    Attributes:
        name: the plug-in's name, for messages.
        distance: None; what goes with a trial comes with it.
    """

    name: ClassVar[str]

    @property
    def distance(self) -> Distance | None:
        """None: see ``of_trial``."""
        return None

    @abstractmethod
    def of_trial(self, observation: Observation, knowledge: Knowledge) -> tuple[Observation, Distance | None]:
        """Return the observation of one trial as the attack gets it, kind gradient, and the loss that goes with it."""

    def prepare(self, observation: Observation, knowledge: Knowledge) -> tuple[Observation, Tensor]:
        """Return the observation of the one trial that there is, and ones; for a loss of its own see ``prepared_by``.

        Raises:
            UserError: there are several trials; else see ``of_trial``.
        """
        if len(observation.trials) > 1:
            raise UserError(f"transform '{self.name}' makes a network for each client: prepare one trial at a time")
        (alone,) = observation.one_by_one()
        return self.of_trial(alone, knowledge)[0], torch.ones(1, dtype=torch.float64)


def prepared_by(transform: Transform, observation: Observation, knowledge: Knowledge) -> list[Prepared]:
    """Return what an attack is given: all trials together, or each alone where their networks differ.

    Raises:
        UserError: see ``Transform.prepare``.
    """
    if isinstance(transform, OfOneTrial):
        alone = [transform.of_trial(one, knowledge) for one in observation.one_by_one()]
        return [Prepared(found, torch.ones(1, dtype=torch.float64), distance) for found, distance in alone]
    together = observation.one_by_one() if observation.own else [observation]
    return [Prepared(*transform.prepare(one, knowledge), transform.distance) for one in together]


# No transform: the attacker of the paper, who takes the server's assumptions for true.


@dataclass(frozen=True)
class NoTransform:
    """Take the update as it is; a delta is divided by minus the nominal rate times the local steps."""

    requirements: ClassVar[Requirements] = Requirements(facts_for_delta=PRESCRIBED_STEPS)

    @property
    def distance(self) -> Distance | None:
        """None: the attack keeps its own."""
        return None

    def prepare(self, observation: Observation, knowledge: Knowledge) -> tuple[Observation, Tensor]:
        """Return the gradient that the server infers, and ones.

        Raises:
            UserError: a delta, and the threat model withholds the nominal rate.
        """
        gradient = observation.as_gradient(knowledge, "none")
        return gradient, torch.ones(len(observation.trials), dtype=torch.float64)


# What most transforms share: the gradient that the server infers is attacked as it is, with another distance.


@dataclass(frozen=True)
class InferredGradient:
    """Base of such transforms; a subclass gives its ``distance`` and its ``requirements``.

    Attributes:
        name: the plug-in's name, for messages.
        knows_the_head: the distance takes the last two tensors for the weight and bias of an affine head.
    """

    name: ClassVar[str]
    knows_the_head: ClassVar[bool] = False

    def prepare(self, observation: Observation, knowledge: Knowledge) -> tuple[Observation, Tensor]:
        """Return the gradient that the server infers, and ones.

        Raises:
            UserError: a delta whose rate or number of steps the threat model withholds, or no affine head with a
                bias where the distance knows the head.
        """
        gradient = observation.as_gradient(knowledge, self.name)
        if self.knows_the_head:
            head(gradient)
        return gradient, torch.ones(len(observation.trials), dtype=torch.float64)


PLUGINS = {
    "none": NoTransform,
}
