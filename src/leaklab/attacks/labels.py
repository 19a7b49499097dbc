"""Label inference from the update of one sample: the last layer gives the label away.

For cross-entropy and one sample the derivative at the logits is p - e_y: only the true class's entry is negative. The
head's bias gradient is that vector itself; a row of its weight gradient is that entry times the features. Positive
factors on the update change nothing.

Source: "iDLG: Improved Deep Leakage from Gradients", eqs. (4)-(6).
"""

from dataclasses import dataclass

from torch import Tensor

from leaklab.observations.base import Observation
from leaklab.records.errors import UserError


@dataclass(frozen=True)
class Head:
    """The last affine layer of the victim and its observed update.

    Attributes:
        weight: [K, F].
        bias: [K].
        weight_update: [T, K, F], in the sign of a gradient.
        bias_update: [T, K], likewise.
    """

    weight: Tensor
    bias: Tensor
    weight_update: Tensor
    bias_update: Tensor


def head(observation: Observation) -> Head:
    """Return the last layer of the observed model.

    Raises:
        UserError: the model does not end in an affine layer with a bias.
    """
    names = list(observation.weights)
    prefix = names[-1].removesuffix("bias")
    weight, bias = f"{prefix}weight", f"{prefix}bias"
    if names[-2:] != [weight, bias] or observation.weights[weight].dim() != 2:
        raise UserError("the model does not end in an affine layer with a bias: choose another attack or model")
    if not {weight, bias} <= set(observation.update):
        raise UserError("the client keeps its last layer to itself, so no label can be read off: use label_rule: known")
    gradient = observation.as_direction().update
    return Head(observation.weights[weight], observation.weights[bias], gradient[weight], gradient[bias])


def bias_rule(observation: Observation) -> Tensor:
    """Return the class of the smallest bias gradient of the head, [T, 1]; exact for one sample and any activation."""
    return head(observation).bias_update.argmin(1, keepdim=True)


def row_sum_rule(observation: Observation) -> Tensor:
    """Return the class of the smallest row sum of the head's weight gradient, [T, 1].

    Exact for one sample where the features are not negative (ReLU, sigmoid).
    """
    return head(observation).weight_update.sum(2).argmin(1, keepdim=True)
