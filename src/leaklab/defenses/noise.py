"""Additive noise: every coordinate of the gradient gets its own normal draw.

Source: "Enhancing Privacy Preservation in Federated Learning via Learning Rate Perturbation", table 3, baseline
"additive noise".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, sqrt

import torch
from torch import Tensor

from leaklab.defenses.base import ClientContext, Defense, require_between
from leaklab.records.bounds import Positive


@dataclass(frozen=True)
class AdditiveNoise(Defense):
    """Add N(0, sigma^2) to each coordinate of the gradient, anew in every local step.

    The noise does not know the gradient's size: where sigma is small beside it, little is hidden, and no privacy
    budget follows, as nothing bounds one sample's share. See ``attacks/adaptive/noise.py``.

    Attributes:
        sigma: standard deviation, in the units of the gradient; positive.
    """

    sigma: Positive = 0.1

    def __post_init__(self) -> None:
        require_between("defense additive-noise", 0, inf, sigma=self.sigma)

    def gradient(self, gradients: Mapping[str, Tensor], context: ClientContext) -> Mapping[str, Tensor]:
        """Return the gradient plus noise; a parameter's draws depend on its name, not on the other parameters."""
        return {name: value + self._noise(name, value, context) for name, value in gradients.items()}

    def _noise(self, name: str, like: Tensor, context: ClientContext) -> Tensor:
        return (self.sigma * context.stream(f"noise of {name}").normal(*like.shape)).to(like)


# Laplace noise: every coordinate of the gradient gets its own draw; what the OUTPOST paper calls DP.


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


# Gradient clipping: the whole gradient is shortened to a bound.


@dataclass(frozen=True)
class GradientClipping(Defense):
    """Divide the gradient by max(1, ||g|| / bound), with one norm over all parameters.

    It hides the length of a long gradient and nothing else; see ``attacks/adaptive/emulation.py``. A gradient
    within the bound leaves as it is.

    Attributes:
        bound: S, the largest L2 norm that leaves the client; positive.
    """

    bound: Positive = 4.0

    def __post_init__(self) -> None:
        require_between("defense gradient-clipping", 0, inf, bound=self.bound)

    def gradient(self, gradients: Mapping[str, Tensor], context: ClientContext) -> Mapping[str, Tensor]:
        """Return the gradient, not longer than the bound."""
        norms = [torch.linalg.vector_norm(value, dtype=torch.float64) for value in gradients.values()]
        divisor = (torch.linalg.vector_norm(torch.stack(norms)) / self.bound).clamp(min=1)
        return {name: value / divisor for name, value in gradients.items()}


# Clipping, then noise: what the LRP paper's table 3 calls differential privacy, without stating a budget.


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


PLUGINS = {
    "additive-noise": AdditiveNoise,
    "clipping-noise": ClippingNoise,
    "gradient-clipping": GradientClipping,
    "laplace-noise": LaplaceNoise,
}
