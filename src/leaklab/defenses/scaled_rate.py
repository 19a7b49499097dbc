"""The deterministic half of ada-LRP: rates scaled by the client's number of classes, nothing drawn.

Source: "Enhancing Privacy Preservation in Federated Learning via Learning Rate Perturbation", figure 5, curve "vanilla
(scaled)". It shows what the scaling does for convergence; as a defense it hides next to nothing, because a fixed
factor per client can be learned over the rounds.
"""

from dataclasses import dataclass

from leaklab.defenses.base import ClientContext, Defense
from leaklab.defenses.class_factor import SMALLEST, class_factor, uncut
from leaklab.records.bounds import Real


@dataclass(frozen=True)
class ScaledRate(Defense):
    """Use the mean of ada-LRP's law as the rate of every step.

    Attributes:
        class_slope: zeta of eq. (13).
        class_offset: beta of eq. (13).
    """

    class_slope: Real = 0.0
    class_offset: Real = 1.0

    def local_rate(self, context: ClientContext) -> float:
        """Return class factor * scaled rate."""
        return context.scaled_rate * class_factor(context, self.class_slope, self.class_offset)

    def clipped(self, context: ClientContext) -> bool:
        """Whether eq. (13) fell below the smallest class factor for this client."""
        return uncut(context, self.class_slope, self.class_offset) < SMALLEST


PLUGIN = ScaledRate
