"""Were the private labels inferred?"""

from typing import TYPE_CHECKING

from leaklab.metrics.base import MetricCard

if TYPE_CHECKING:
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
    averaging="0 or 1 per private image, none where no label was guessed; the mean is the label accuracy",
    note="labels that the threat model grants to the attacker count as inferred",
)


def recovered_labels(inferred: "Tensor", truth: "Tensor") -> "Tensor":
    """Say for each private label whether the attacker found it, whatever the order within the batch.

    Args:
        inferred: int64 [T, B]; a negative entry is no guess.
        truth: int64 [T, B].

    Returns:
        float64 [T, B] of 0 and 1; NaN for as many of the labels that were not found, the last ones, as there are
        places without a guess: a label that nobody guessed is neither hit nor miss.
    """
    import torch  # the card is read by steps without tensors

    same = truth.unsqueeze(2) == truth.unsqueeze(1)
    seen_before = same.tril(-1).sum(2)
    found = (truth.unsqueeze(2) == inferred.unsqueeze(1)).sum(2)
    hit = seen_before < found
    silent = (inferred < 0).sum(1, keepdim=True)
    # the missed labels, counted from the last: those without a guess to be wrong about
    missed_after = (~hit).long().flip(1).cumsum(1).flip(1)
    return hit.double().masked_fill(~hit & (missed_after <= silent), torch.nan)
