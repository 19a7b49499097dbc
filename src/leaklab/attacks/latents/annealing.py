"""How much a matching distance weighs against a prior, from stage to stage.

A distance that is a negative log-likelihood already (``matched-noise``) weighs 1, in one stage. Any other one says
nothing of errors; where the observation is exact, its weight should be endless. It grows towards that in stages, as if
each entry had an error of a standard deviation s that shrinks:

    weight = 1 / (2 s^2 D(0, o))

with the distance D(0, o) of a zero gradient as unit, so that s is relative to the size of the observed gradient and
means the same whatever is matched.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from leaklab.attacks.matching.distances import Distance, is_log_likelihood
from leaklab.records.errors import UserError


@dataclass(frozen=True)
class Ladder:
    """The errors s of the stages, in equal ratios.

    Attributes:
        coarsest: of the first stage; positive.
        finest: of the last one; positive, and of the only one.
        stages: at least 1.
    """

    coarsest: float
    finest: float
    stages: int

    def __post_init__(self) -> None:
        if not (self.coarsest >= self.finest > 0 and self.stages >= 1):
            raise UserError("annealing goes from coarsest down to finest, both above 0, in at least one stage")

    def errors(self) -> list[float]:
        """Return s of each stage, largest first."""
        steps = self.stages - 1
        ratio = (self.finest / self.coarsest) ** (1 / steps) if steps else 1.0
        return [self.finest / ratio**left for left in range(steps, -1, -1)]

    def weights(self, distance: Distance, nothing: Tensor) -> list[Tensor]:
        """Return the weight [T] of the distance in each stage.

        Args:
            distance: see ``matching``.
            nothing: its value for a zero gradient, [T].
        """
        if is_log_likelihood(distance):
            return [torch.ones_like(nothing)]
        return [1 / (2 * error**2 * nothing) for error in self.errors()]
