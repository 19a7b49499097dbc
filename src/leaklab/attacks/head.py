"""The last affine layer of a victim: it gives away labels, features and factors."""

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
