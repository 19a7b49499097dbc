"""No transform: the attacker of the paper, who takes the server's assumptions for true."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from leaklab.attacks.adaptive.base import Transform
from leaklab.attacks.matching import Distance
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import PRESCRIBED_STEPS, Requirements


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


PLUGIN: type[Transform] = NoTransform
