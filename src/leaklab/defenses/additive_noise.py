"""Additive noise: every coordinate of the gradient gets its own normal draw.

Source: "Enhancing Privacy Preservation in Federated Learning via Learning Rate Perturbation", table 3, baseline
"additive noise".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from torch import Tensor

from leaklab.defenses.base import ClientContext, Defense
from leaklab.defenses.settings import require_between
from leaklab.records.bounds import Positive


@dataclass(frozen=True)
class AdditiveNoise(Defense):
    """Add N(0, sigma^2) to each coordinate of the gradient, anew in every local step.

    The noise does not know the gradient's size: where sigma is small beside it, little is hidden, and no privacy
    budget follows, as nothing bounds one sample's share. See ``attacks/adaptive/matched_noise.py``.

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


PLUGIN = AdditiveNoise
