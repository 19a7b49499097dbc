"""Learning rate perturbation (LRP) and its adaptive form, ada-LRP.

Source: "Enhancing Privacy Preservation in Federated Learning via Learning Rate Perturbation", eqs. (10), (12), (13).
"""

from dataclasses import dataclass

from leaklab.defenses.base import ClientContext, Defense
from leaklab.records.bounds import Real

# The class factor of ada-LRP: clients with more classes learn faster.

# eq. (13) turns non-positive for a client with few classes and a steep slope; a client must still learn something
SMALLEST = 1e-3


def uncut(context: ClientContext, slope: float | None, offset: float) -> float:
    """Return slope * (Y_k - mean Y) + offset, or 1 without a slope.

    Args:
        context: the client, with Y_k = ``num_classes``.
        slope: zeta.
        offset: beta; 1 keeps the average factor over clients at 1.
    """
    return 1.0 if slope is None else slope * (context.num_classes - context.mean_num_classes) + offset


def class_factor(context: ClientContext, slope: float | None, offset: float) -> float:
    """Return the factor, cut at the smallest one that is allowed."""
    return max(uncut(context, slope, offset), SMALLEST)


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


# The deterministic half of ada-LRP: rates scaled by the client's number of classes, nothing drawn.


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


PLUGINS = {
    "lrp": LearningRatePerturbation,
    "scaled-rate": ScaledRate,
}
