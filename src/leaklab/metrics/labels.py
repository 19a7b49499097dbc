"""Were the private labels inferred?"""

from typing import TYPE_CHECKING

from leaklab.metrics.base import MetricCard

if TYPE_CHECKING:  # the card is read by steps without tensors
    from torch import Tensor

LABEL_CARD = MetricCard(
    name="label_correct",
    unit="",
    better="lower",
    domain="class labels",
    peak=None,
    clamping="none",
    network="",
    input_range="int64",
    assignment="as multisets: a true label counts if an inferred label is left for it",
    averaging="0 or 1 per private image; the mean is the label accuracy",
    note="labels that the threat model grants to the attacker count as inferred",
)


def recovered_labels(inferred: "Tensor", truth: "Tensor") -> "Tensor":
    """Say for each private label whether the attacker found it, whatever the order within the batch.

    Args:
        inferred: int64 [T, B]; a negative entry is no guess.
        truth: int64 [T, B].

    Returns:
        float64 [T, B] of 0 and 1.
    """
    same = truth.unsqueeze(2) == truth.unsqueeze(1)
    seen_before = same.tril(-1).sum(2)
    found = (truth.unsqueeze(2) == inferred.unsqueeze(1)).sum(2)
    return (seen_before < found).double()
