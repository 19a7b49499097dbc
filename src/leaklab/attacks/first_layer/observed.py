"""The first affine layer of an observation: its update and its weights, as the readers of this room take them."""

import numpy as np
from torch import Tensor, nn

from leaklab.attacks.base import blank
from leaklab.attacks.first_layer.layer import FirstLayer, Floats
from leaklab.observations.base import Knowledge, Observation
from leaklab.records.errors import UserError


def first_layers(observation: Observation, knowledge: Knowledge, needed_by: str) -> list[FirstLayer]:
    """Return the first layer of every trial, on inputs as they were before a normalisation that is known.

    Args:
        observation: T trials.
        knowledge: what the threat model grants.
        needed_by: the attack's name, for messages.

    Raises:
        UserError: facts are withheld, the network does not begin with an affine layer with a bias, or the client keeps
            that to itself.
    """
    network = blank(observation, knowledge, needed_by)
    name, first = next(
        (name, layer) for name, layer in network.named_children() if next(layer.parameters(), None) is not None
    )
    weight, bias = f"{name}.weight", f"{name}.bias"
    if not isinstance(first, nn.Linear) or first.bias is None:
        raise UserError(
            f"attack '{needed_by}' needs a network that begins with an affine layer with a bias: choose another attack"
        )
    if not {weight, bias} <= set(observation.update):
        raise UserError(f"attack '{needed_by}': the client keeps its first layer to itself: choose another defense")
    own, offset = _number(observation.weights[weight]), _number(observation.weights[bias])
    shape = tuple(knowledge.require("input_shape", needed_by))
    side = shape[-1] if len(shape) == 3 and shape[-1] == shape[-2] else 0
    layers = [
        FirstLayer(_number(moved), _number(moved_bias), own, offset, side)
        for moved, moved_bias in zip(observation.update[weight], observation.update[bias], strict=True)
    ]
    shrunk = own
    if knowledge.knows("normalisation"):
        scale = knowledge.require("normalisation", needed_by)
        mean, deviation = (np.repeat(np.array(scale[key]), shape[-1] * shape[-2]) for key in ("mean", "std"))
        layers = [layer.without_normalisation(mean, deviation) for layer in layers]
        shrunk = own * deviation + np.outer(offset, mean)
    if knowledge.knows("weight_decay") and knowledge.require("weight_decay", needed_by):
        layers = [layer.without_decay(shrunk, offset) for layer in layers]
    return layers


def _number(values: Tensor) -> Floats:
    found: Floats = values.detach().cpu().double().numpy()
    return found
