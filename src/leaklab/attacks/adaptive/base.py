"""What a transform is: how an attacker who knows the defense prepares the observation, and with which loss."""

from typing import ClassVar, Protocol

from torch import Tensor

from leaklab.attacks.matching import Distance
from leaklab.observations.base import Knowledge, Observation


class Transform(Protocol):
    """A transform plug-in; a frozen dataclass.

    Attributes:
        fits: defenses that it is made for; empty for all.
        needs: facts that it needs besides the attack's own.
        distance: matching loss that goes with it; None leaves an attack its own.
    """

    fits: ClassVar[frozenset[str]]
    needs: ClassVar[frozenset[str]]

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
