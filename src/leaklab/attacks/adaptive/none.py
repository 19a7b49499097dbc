"""No transform: the attacker of the paper, who takes the server's assumptions for true."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from leaklab.attacks.matching import Distance
from leaklab.observations.base import Knowledge, Observation


@dataclass(frozen=True)
class NoTransform:
    """Take the update as it is; a delta is divided by minus the nominal rate times the local steps."""

    fits: ClassVar[frozenset[str]] = frozenset()
    needs: ClassVar[frozenset[str]] = frozenset()
    needs_for_delta: ClassVar[frozenset[str]] = frozenset({"nominal_rate", "local_steps"})

    @property
    def distance(self) -> Distance | None:
        """None: the attack keeps its own."""
        return None

    def prepare(self, observation: Observation, knowledge: Knowledge) -> tuple[Observation, Tensor]:
        """Return the gradient that the server infers, and ones.

        Raises:
            UserError: a delta, and the threat model withholds the nominal rate.
        """
        gradient = observation.as_gradient(knowledge, "as-printed")
        return gradient, torch.ones(len(observation.trials), dtype=torch.float64)


PLUGIN = NoTransform
