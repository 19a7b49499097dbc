"""What a transform is: how an attacker who knows the defense prepares the observation, and with which loss."""

from typing import ClassVar, Protocol, runtime_checkable

from torch import Tensor

from leaklab.attacks.matching import Distance
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import Requirements


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
