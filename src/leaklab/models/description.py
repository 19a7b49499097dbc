"""A network in rows: one per layer, with kernel, channels, output shape and parameter count (LRP table 4)."""

from copy import deepcopy
from typing import Any

import torch
from torch import nn

from leaklab.models.base import Shape


def describe(module: nn.Sequential, input_shape: Shape) -> list[dict[str, Any]]:
    """Return one row a layer, in order; the module itself is not run and not changed.

    Args:
        module: the network.
        input_shape: (channels, height, width) of one image.

    Returns:
        Rows with ``layer``, ``kind``, ``output_shape`` (without the batch), ``parameters`` (count), and for
        convolutions and pooling ``kernel_size``, ``stride``, ``padding``; convolutions add ``in_channels``,
        ``out_channels``, affine layers ``in_features``, ``out_features``.
    """
    values = torch.empty(1, *input_shape, device="meta")
    rows = []
    for name, layer in deepcopy(module).to("meta").eval().to(torch.float32).named_children():
        values = layer(values)
        rows.append(
            {
                "layer": name,
                "kind": type(layer).__name__,
                **_geometry(layer),
                "output_shape": tuple(values.shape[1:]),
                "parameters": sum(parameter.numel() for parameter in layer.parameters()),
            }
        )
    return rows


def _geometry(layer: nn.Module) -> dict[str, Any]:
    if isinstance(layer, nn.Linear):
        return {"in_features": layer.in_features, "out_features": layer.out_features}
    if not isinstance(layer, nn.Conv2d | nn.MaxPool2d):
        return {}
    window = {name: _pair(getattr(layer, name)) for name in ("kernel_size", "stride", "padding")}
    if isinstance(layer, nn.Conv2d):
        window |= {"in_channels": layer.in_channels, "out_channels": layer.out_channels}
    return window


def _pair(value: Any) -> Any:
    return value if isinstance(value, tuple) else (value, value)
