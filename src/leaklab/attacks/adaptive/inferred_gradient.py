"""What most transforms share: the gradient that the server infers is attacked as it is, with another distance."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from leaklab.attacks.head import head
from leaklab.observations.base import Knowledge, Observation


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
