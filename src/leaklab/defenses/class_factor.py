"""The class factor of ada-LRP: clients with more classes learn faster.

Source: "Enhancing Privacy Preservation in Federated Learning via Learning Rate Perturbation", eq. (13).
"""

from leaklab.defenses.base import ClientContext

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
