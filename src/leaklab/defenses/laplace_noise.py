"""Laplace noise: every coordinate of the gradient gets its own draw; what the OUTPOST paper calls DP.

Source: "More Than Enough Is Too Much: Adaptive Defenses Against Gradient Leakage in Production Federated Learning",
section V, baseline "DP" with a variance of 0.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, sqrt

from torch import Tensor

from leaklab.defenses.base import ClientContext, Defense
from leaklab.defenses.settings import require_between
from leaklab.records.bounds import Positive


@dataclass(frozen=True)
class LaplaceNoise(Defense):
    """Add Laplace noise of mean 0 to each coordinate of the gradient, anew in every local step.

    Nothing is clipped, as the paper states no bound: one sample's share is unbounded, so no privacy budget follows.

    Attributes:
        variance: of the noise on each coordinate, in the squared units of the gradient; positive. The printed 0.1 is
            a scale of 0.2236; the public code's scale of 0.1 is a variance of 0.02.
    """

    variance: Positive = 0.1

    def __post_init__(self) -> None:
        require_between("defense laplace-noise", 0, inf, variance=self.variance)

    @property
    def scale(self) -> float:
        """Return b of the density exp(-|x| / b) / (2 b), whose variance is 2 b^2."""
        return sqrt(self.variance / 2)

    def gradient(self, gradients: Mapping[str, Tensor], context: ClientContext) -> Mapping[str, Tensor]:
        """Return the gradient plus noise; a parameter's draws depend on its name, not on the other parameters."""
        return {name: value + self._noise(name, value, context) for name, value in gradients.items()}

    def _noise(self, name: str, like: Tensor, context: ClientContext) -> Tensor:
        # the difference of two exponential draws; both are finite, as a uniform draw is never 1
        drawn = (-context.stream(f"noise of {name}").uniform(2, *like.shape)).log1p()
        return (self.scale * (drawn[1] - drawn[0])).to(like)


PLUGIN = LaplaceNoise
