"""Initial weights, drawn from a named stream and never from torch's global generator.

Sources: ``pytorch`` is the law of torch's own linear and convolution layers; ``wide`` is the explicit initialisation
of "Deep Leakage from Gradients", which makes gradient matching easy; ``he`` is that of residual networks ("Delving
Deep into Rectifiers", equation 14) as torchvision's ResNets use it. Batch normalisations start as the identity under
every scheme and draw nothing.
"""

from collections.abc import Callable, Mapping
from math import sqrt

import torch
from torch import Tensor, nn

from leaklab.models.normalisation import reset
from leaklab.records.errors import UserError
from leaklab.records.streams import Stream

Layer = nn.Linear | nn.Conv2d
Law = Callable[[Layer, Stream], list[Tensor]]


def _uniform(layer: Layer, stream: Stream, half_width: float) -> list[Tensor]:
    return [half_width * (2 * stream.uniform(*values.shape) - 1) for values in layer.parameters(recurse=False)]


def _pytorch(layer: Layer, stream: Stream) -> list[Tensor]:
    """U(-1/sqrt(fan_in), 1/sqrt(fan_in)) for weight and bias."""
    return _uniform(layer, stream, 1 / sqrt(layer.weight[0].numel()))


def _wide(layer: Layer, stream: Stream) -> list[Tensor]:
    """U(-0.5, 0.5) for weight and bias."""
    return _uniform(layer, stream, 0.5)


def _he(layer: Layer, stream: Stream) -> list[Tensor]:
    """N(0, 2/fan_out) for the kernels of a convolution, zero for its bias; affine layers as ``pytorch``."""
    if isinstance(layer, nn.Linear):
        return _pytorch(layer, stream)
    fan_out = layer.weight[:, 0].numel() // layer.groups
    kernels = sqrt(2 / fan_out) * stream.normal(*layer.weight.shape)
    return [kernels] if layer.bias is None else [kernels, torch.zeros(layer.bias.shape)]


LAWS: Mapping[str, Law] = {"pytorch": _pytorch, "wide": _wide, "he": _he}


def initialise(module: nn.Module, stream: Stream, scheme: str) -> None:
    """Draw every weight and bias of ``module`` in place, layer by layer in the order of its parameters.

    Args:
        module: a network whose parameters all belong to linear, convolution or batch normalisation layers.
        stream: the source of the draws (float64; cast to each parameter's dtype and device).
        scheme: ``pytorch`` for U(-1/sqrt(fan_in), 1/sqrt(fan_in)), ``wide`` for U(-0.5, 0.5), ``he`` for
            N(0, 2/fan_out) in convolutions without bias, as torchvision's ResNets start.

    Raises:
        UserError: unknown scheme, or a layer with parameters or buffers of another kind.
    """
    if scheme not in LAWS:
        raise UserError(f"unknown initialisation '{scheme}': choose from {', '.join(LAWS)}")
    for name, layer in module.named_modules():
        if isinstance(layer, nn.BatchNorm2d):
            reset(layer)
        elif isinstance(layer, Layer):
            _fill(layer, LAWS[scheme](layer, stream))
        elif [*layer.parameters(recurse=False), *layer.buffers(recurse=False)]:
            raise UserError(
                f"layer '{name}' ({type(layer).__name__}) has no initialisation: use linear, conv or batch norm layers"
            )


def _fill(layer: Layer, values: list[Tensor]) -> None:
    with torch.no_grad():
        for parameter, drawn in zip(layer.parameters(recurse=False), values, strict=True):
            parameter.copy_(drawn)
