"""Clipping, then noise: what the LRP paper's table 3 calls differential privacy, without stating a budget.

Source: "Enhancing Privacy Preservation in Federated Learning via Learning Rate Perturbation", table 3.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from torch import Tensor

from leaklab.defenses.additive_noise import AdditiveNoise
from leaklab.defenses.base import ClientContext, Defense
from leaklab.defenses.gradient_clipping import GradientClipping
from leaklab.defenses.settings import require_between
from leaklab.records.bounds import Positive


@dataclass(frozen=True)
class ClippingNoise(Defense):
    """Clip the batch gradient to ``bound``, then add the noise of ``additive-noise``: the same draws.

    The whole gradient is clipped, not each sample's; with one sample per step these are the same.

    Attributes:
        bound: largest L2 norm before the noise; positive.
        sigma: standard deviation of the noise on each coordinate; not multiplied by the bound; positive.
    """

    bound: Positive = 4.0
    sigma: Positive = 0.1

    def __post_init__(self) -> None:
        require_between("defense clipping-noise", 0, inf, bound=self.bound, sigma=self.sigma)

    def gradient(self, gradients: Mapping[str, Tensor], context: ClientContext) -> Mapping[str, Tensor]:
        """Return the clipped gradient plus noise."""
        clipped = GradientClipping(self.bound).gradient(gradients, context)
        return AdditiveNoise(self.sigma).gradient(clipped, context)


PLUGIN = ClippingNoise
