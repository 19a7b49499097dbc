"""Initial weights, drawn from a named stream and never from torch's global generator.

Sources: ``pytorch`` is the law of torch's own linear and convolution layers; ``wide`` is the explicit initialisation
of "Deep Leakage from Gradients", which makes gradient matching easy.
"""

from collections.abc import Callable, Mapping
from math import sqrt

import torch
from torch import nn

from leaklab.records.errors import UserError
from leaklab.records.streams import Stream

# half-width of the uniform law of a layer's weight and bias, given the layer's fan-in
HALF_WIDTHS: Mapping[str, Callable[[int], float]] = {
    "pytorch": lambda fan_in: 1 / sqrt(fan_in),
    "wide": lambda fan_in: 0.5,
}


def initialise(module: nn.Module, stream: Stream, scheme: str) -> None:
    """Draw every weight and bias of ``module`` in place, layer by layer in the order of its parameters.

    Args:
        module: a network whose parameters all belong to linear or convolution layers.
        stream: the source of the draws (float64; cast to each parameter's dtype and device).
        scheme: ``pytorch`` for U(-1/sqrt(fan_in), 1/sqrt(fan_in)), ``wide`` for U(-0.5, 0.5).

    Raises:
        UserError: unknown scheme, or a layer with parameters of another kind.
    """
    if scheme not in HALF_WIDTHS:
        raise UserError(f"unknown initialisation '{scheme}': choose from {', '.join(HALF_WIDTHS)}")
    for name, layer in module.named_modules():
        parameters = list(layer.parameters(recurse=False))
        if not parameters:
            continue
        if not isinstance(layer, nn.Linear | nn.Conv2d):
            raise UserError(f"layer '{name}' ({type(layer).__name__}) has no initialisation: use linear or conv layers")
        half_width = HALF_WIDTHS[scheme](layer.weight[0].numel())
        with torch.no_grad():
            for parameter in parameters:
                parameter.copy_(half_width * (2 * stream.uniform(*parameter.shape) - 1))
