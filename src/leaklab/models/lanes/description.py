"""Networks as the compiled library takes them, and what is handed to it.

A step of a small convolutional network is bound by the layout of its values: a library that takes any shape moves them
between the orders that its kernels like, and reads and writes all of them between two layers. Here they lie in one
order, samples side by side in vectors, in which every layer is products of single weights with whole vectors.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import nn

from leaklab.models.base import Shape

CONVOLUTION, AFFINE, POOL, RECTIFIER, DROPOUT, SIGMOID = range(6)


class Layer(ctypes.Structure):
    """A layer and the size of its inputs, as ``network.hpp`` reads it."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in (
            "kind", "channels", "high", "wide", "outputs", "kernel_high", "kernel_wide", "padding", "stride", "weight",
            "bias", "mask",
        )),
        ("below", ctypes.c_double),
    )  # fmt: skip


@dataclass(frozen=True)
class Description:
    """A network as the library takes it.

    Attributes:
        layers: without those that only reorder or, in evaluation, do nothing.
        names: of the weights, in the order of the places that the layers name.
        masks: names of the dropout layers.
        drops: whether they are among the layers.
    """

    layers: list[Layer]
    names: list[str]
    masks: list[str]
    drops: bool

    @property
    def products(self) -> int:
        """Return the products of a forward pass of one sample."""
        return sum(_products(layer) for layer in self.layers if layer.kind in (CONVOLUTION, AFFINE))

    @classmethod
    def of(cls, network: nn.Sequential, input_shape: Shape, dropping: bool) -> "Description":
        """Describe a network for which ``fits_lanes`` holds."""
        found, names, masks = list[Layer](), list[str](), list[str]()
        values = torch.zeros(1, *input_shape, dtype=next(network.parameters()).dtype)
        sides = tuple(values.shape[1:])  # a flat tensor keeps those that it had
        for name, layer in network.named_children():
            with torch.no_grad():
                outputs = values if isinstance(layer, nn.Dropout) else layer(values)
            one = _layer(layer, sides, outputs.shape[1])
            if isinstance(layer, nn.Conv2d | nn.Linear):
                for kind in ("weight", "bias"):
                    if getattr(layer, kind) is not None:
                        setattr(one, kind, len(names))
                        names.append(f"{name}.{kind}")
            if isinstance(layer, nn.Dropout):
                one.mask = len(masks)
                masks.append(name)
            if not isinstance(layer, nn.Flatten) and (dropping or not isinstance(layer, nn.Dropout)):
                found.append(one)
            flat = isinstance(layer, nn.Flatten) or (outputs.dim() == 2 and not isinstance(layer, nn.Linear))
            sides = sides if flat else (*outputs.shape[1:], 1, 1)[:3]
            values = outputs
        return cls(found, names, masks, dropping)


def _products(layer: Layer) -> int:
    if layer.kind == AFFINE:
        return int(layer.outputs * layer.channels * layer.high * layer.wide)
    kernels = (layer.high, layer.kernel_high), (layer.wide, layer.kernel_wide)
    steps = prod((side + 2 * layer.padding - kernel) // layer.stride + 1 for side, kernel in kernels)
    return int(layer.outputs * layer.channels * layer.kernel_high * layer.kernel_wide * steps)


def _layer(layer: nn.Module, sides: Sequence[int], outputs: int) -> Layer:
    one = Layer(0, *sides, outputs, 1, 1, 0, 1, -1, -1, -1, 0.0)
    match layer:
        case nn.Conv2d():
            one.kind, (one.kernel_high, one.kernel_wide) = CONVOLUTION, layer.kernel_size
            one.padding, one.stride = _pair(layer.padding)[0], layer.stride[0]
        case nn.Linear():
            one.kind = AFFINE
        case nn.MaxPool2d():
            one.kind, (one.kernel_high, one.kernel_wide) = POOL, _pair(layer.kernel_size)
        case nn.LeakyReLU():
            one.kind, one.below = RECTIFIER, layer.negative_slope
        case nn.ReLU():
            one.kind = RECTIFIER
        case nn.Dropout():
            one.kind = DROPOUT
        case nn.Sigmoid():
            one.kind = SIGMOID
    return one


def fits_lanes(network: nn.Sequential) -> bool:
    """Whether the library knows the network: convolutions first, affine layers last, and no layer that it lacks."""
    layers = list(network)
    flat = [place for place, layer in enumerate(layers) if isinstance(layer, nn.Flatten)]
    if len(flat) != 1 or not isinstance(layers[0], nn.Conv2d) or not isinstance(layers[-1], nn.Linear):
        return False
    planar = (nn.Conv2d, nn.MaxPool2d, nn.ReLU, nn.LeakyReLU, nn.Sigmoid, nn.Dropout)
    behind = (nn.Linear, nn.ReLU, nn.LeakyReLU, nn.Sigmoid, nn.Dropout)
    return (
        all(isinstance(layer, planar) and _is_known(layer) for layer in layers[: flat[0]])
        and _is_known(layers[flat[0]])
        and all(isinstance(layer, behind) for layer in layers[flat[0] + 1 :])
    )


def _is_known(layer: nn.Module) -> bool:
    match layer:
        case nn.Conv2d():
            alike = all(len({*_pair(pair)}) == 1 for pair in (layer.padding, layer.stride))
            return alike and _pair(layer.dilation) == (1, 1) and layer.groups == 1 and layer.padding_mode == "zeros"
        case nn.MaxPool2d():
            plain = _pair(layer.padding) == (0, 0) and _pair(layer.dilation) == (1, 1)
            apart = _pair(layer.kernel_size) == _pair(layer.stride)
            return plain and apart and not layer.ceil_mode and not layer.return_indices
        case nn.Flatten():
            return layer.start_dim == 1 and layer.end_dim == -1
    return True


def _pair(size: int | str | tuple[int, ...]) -> tuple[int, ...]:
    return (size, size) if isinstance(size, int) else (-1, -2) if isinstance(size, str) else tuple(size)
