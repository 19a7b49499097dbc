"""Learning rate perturbation (LRP) and its adaptive form, ada-LRP.

Source: "Enhancing Privacy Preservation in Federated Learning via Learning Rate Perturbation", eqs. (10), (12), (13).
"""

from dataclasses import dataclass

from leaklab.defenses.base import ClientContext, Defense
from leaklab.defenses.class_factor import SMALLEST, class_factor, uncut
from leaklab.records.bounds import Real


@dataclass(frozen=True)
class LearningRatePerturbation(Defense):
    """Draw the local learning rate from U(0, 2 * mean) in every local step, so that the gradient's scale is hidden.

    One scalar per step, shared by all layers. With a single local step the update is the gradient times one unknown
    factor: its direction, its sparsity and every ratio of entries stay visible. Over several steps the weights of
    the steps' gradients are hidden too. Nothing else is.

    Attributes:
        class_slope: zeta of eq. (13). None keeps the mean at the client's scaled rate (plain LRP).
        class_offset: beta of eq. (13); 1 keeps the average class factor over clients at 1.
    """

    class_slope: Real | None = None
    class_offset: Real = 1.0

    def local_rate(self, context: ClientContext) -> float:
        """Return this step's learning rate, in [0, 2 * class factor * scaled rate)."""
        mean = context.scaled_rate * class_factor(context, self.class_slope, self.class_offset)
        return context.stream("rate").number() * (2 * mean)

    def clipped(self, context: ClientContext) -> bool:
        """Whether eq. (13) fell below the smallest class factor for this client."""
        return uncut(context, self.class_slope, self.class_offset) < SMALLEST


PLUGIN = LearningRatePerturbation
