"""Profiled scale: the matching loss asks for the direction of the gradient only, so a hidden factor is no secret."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from leaklab.attacks.adaptive.base import Transform
from leaklab.attacks.matching import Distance, profiled_scale
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import Requirements


@dataclass(frozen=True)
class ProfiledScale:
    """Minimise min over s of ||o - s g'||^2 / ||o||^2; works for any batch size and needs no knowledge of any rate.

    It fits every defense: where none hides the scale it gives away a number that the server knows, and no more.

    With several local steps it removes the mean factor; what the steps' different weights do to the direction stays.
    """

    requirements: ClassVar[Requirements] = Requirements()

    @property
    def distance(self) -> Distance:
        """The profiled distance."""
        return profiled_scale

    def prepare(self, observation: Observation, knowledge: Knowledge) -> tuple[Observation, Tensor]:
        """Return the gradient up to its factor, and ones: the factor is profiled out within the loss."""
        return observation.as_direction(), torch.ones(len(observation.trials), dtype=torch.float64)


PLUGIN: type[Transform] = ProfiledScale
