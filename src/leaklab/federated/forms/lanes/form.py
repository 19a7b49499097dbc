"""Plain convolutional networks whose steps were compiled: the samples of a batch side by side in vectors.

A step of such a network is bound by the layout of its values: a library that takes any shape moves them between the
orders that its kernels like, and reads and writes all of them between two layers. Here they lie in one order, in which
every layer is products of single weights with whole vectors. ``plain_cnn`` and ``stacked`` are the oracles of the tests
and do the work where there is no compiler.
"""

import ctypes
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.federated.batches import Batch, DropoutSite
from leaklab.federated.forms.stacked import dropout_sites
from leaklab.federated.optimizers import Weights
from leaklab.models.base import Shape
from leaklab.records.streams import stream

CONVOLUTION, AFFINE, POOL, RECTIFIER, DROPOUT = range(5)
TYPES = {torch.float32: "float32", torch.float64: "float64"}
IMAGES = 64
"""In one forward pass of an evaluation: what a second cache holds of a small network's values."""


class Layer(ctypes.Structure):
    """A layer and the size of its inputs, as ``network.cpp`` reads it."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in (
            "kind", "channels", "high", "wide", "outputs", "kernel_high", "kernel_wide", "padding", "weight", "bias",
            "mask",
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
    """

    layers: list[Layer]
    names: list[str]
    masks: list[str]

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
        return cls(found, names, masks)


def _layer(layer: nn.Module, sides: Sequence[int], outputs: int) -> Layer:
    one = Layer(0, *sides, outputs, 1, 1, 0, -1, -1, -1, 0.0)
    match layer:
        case nn.Conv2d():
            one.kind, (one.kernel_high, one.kernel_wide), one.padding = (
                CONVOLUTION,
                layer.kernel_size,
                _pair(layer.padding)[0],
            )
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
    return one


def fits_lanes(network: nn.Sequential) -> bool:
    """Whether ``LanesNetwork`` can train the network: convolutions first, affine layers last, all of them known."""
    layers = list(network)
    flat = [place for place, layer in enumerate(layers) if isinstance(layer, nn.Flatten)]
    if len(flat) != 1 or not isinstance(layers[0], nn.Conv2d) or not isinstance(layers[-1], nn.Linear):
        return False
    planar = (nn.Conv2d, nn.MaxPool2d, nn.ReLU, nn.LeakyReLU, nn.Dropout)
    behind = (nn.Linear, nn.ReLU, nn.LeakyReLU, nn.Dropout)
    return (
        all(isinstance(layer, planar) and _is_known(layer) for layer in layers[: flat[0]])
        and _is_known(layers[flat[0]])
        and all(isinstance(layer, behind) for layer in layers[flat[0] + 1 :])
    )


def _is_known(layer: nn.Module) -> bool:
    match layer:
        case nn.Conv2d():
            one = _pair(layer.stride) == _pair(layer.dilation) == (1, 1) and layer.groups == 1
            return one and layer.padding_mode == "zeros" and len({*_pair(layer.padding)}) == 1
        case nn.MaxPool2d():
            plain = _pair(layer.padding) == (0, 0) and _pair(layer.dilation) == (1, 1)
            apart = _pair(layer.kernel_size) == _pair(layer.stride)
            return plain and apart and not layer.ceil_mode and not layer.return_indices
        case nn.Flatten():
            return layer.start_dim == 1 and layer.end_dim == -1
    return True


def _pair(size: int | str | tuple[int, ...]) -> tuple[int, ...]:
    return (size, size) if isinstance(size, int) else (-1, -2) if isinstance(size, str) else tuple(size)


Other = Callable[[nn.Sequential, Shape], Any]


class LanesNetwork:
    """M models of a network of Conv2d, MaxPool2d, (leaky) ReLU, Dropout, Flatten and Linear layers, on a CPU.

    Attributes:
        dropouts: the dropout layers by name.
        buffers: none.
        samples_apart: the form for what bounds the gradient of each sample: here they are never apart.
    """

    buffers: tuple[str, ...] = ()

    def __init__(
        self, network: nn.Sequential, input_shape: Shape, library: ctypes.CDLL, other: Other | None = None
    ) -> None:
        """Describe ``network``, for which ``fits_lanes`` holds; ``other`` makes a form that needs no compiler."""
        self.dropouts: Mapping[str, DropoutSite] = dropout_sites(network, input_shape)
        self._library = library
        self._descriptions = {dropping: Description.of(network, input_shape, dropping) for dropping in (False, True)}
        self.samples_apart = other(network, input_shape) if other else None
        self._open: dict[tuple[str, int, bool], ctypes.c_void_p] = {}

    @torch.no_grad()
    def logits(self, weights: Weights, images: Tensor, masks: Mapping[str, Tensor]) -> Tensor:
        """Return the outputs [M, classes, B] in evaluation state; see ``StackedNetwork.logits``."""
        parts = [self._outputs(weights, part.contiguous()) for part in torch.split(images, IMAGES, 1)]
        return torch.cat(parts, 2)

    def _outputs(self, weights: Weights, images: Tensor) -> Tensor:
        own, description = TYPES[images.dtype], self._descriptions[False]
        held = [weights[name].contiguous() for name in description.names]
        models, (groups, batch) = len(held[0]), images.shape[:2]
        found = images.new_empty(models, description.layers[-1].outputs, batch)
        getattr(self._library, f"outputs_{own}")(
            self.opened(own, batch, False), models, models // groups, _at(images), len(held), _places(held),
            _sizes(held), _at(found),
        )  # fmt: skip
        return found

    @torch.no_grad()
    def gradients(
        self, weights: Weights, batch: Batch, wanted: Collection[str] | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return each model's mean cross-entropy [M] and its gradient by name, [M, ...]."""
        images, labels = batch.images.contiguous(), batch.labels.contiguous()
        own, dropping = TYPES[images.dtype], bool(batch.masks)
        description = self._descriptions[dropping]
        masks = [batch.masks[name].to(images.dtype).contiguous() for name in description.masks if dropping]
        held = [weights[name].contiguous() for name in description.names]
        names = [name for name in weights if wanted is None or name in wanted]
        found = {name: torch.empty_like(held[description.names.index(name)]) for name in names}
        models, (groups, size) = len(held[0]), labels.shape
        losses = images.new_empty(models)
        getattr(self._library, f"gradients_{own}")(
            self.opened(own, size, dropping), models, models // groups, _at(images), _at(labels),
            ctypes.c_int64(size), len(masks), _places(masks), _sizes(masks), len(held), _places(held), _sizes(held),
            _places([found.get(name) for name in description.names]), _at(losses), self._lowest(description, names),
        )  # fmt: skip
        return losses, found

    @staticmethod
    def _lowest(description: Description, names: Collection[str]) -> int:
        """Return the first layer that has a wanted weight: nothing below it is needed."""
        places = {description.names.index(name) for name in names}
        return min(index for index, layer in enumerate(description.layers) if places & {layer.weight, layer.bias})

    def layers(self, dropping: bool) -> list[Layer]:
        """Return the layers as the library takes them."""
        return self._descriptions[dropping].layers

    def opened(self, own: str, batch: int, dropping: bool) -> ctypes.c_void_p:
        """Return the library's network for batches of one size, made when it is first asked for.

        Args:
            own: ``float32`` or ``float64``.
            batch: samples.
            dropping: whether units are dropped, as in training.
        """
        key = own, batch, dropping
        if key not in self._open:
            layers = self.layers(dropping)
            opened = getattr(self._library, f"open_{own}")
            opened.restype = ctypes.c_void_p
            address = opened((Layer * len(layers))(*layers), len(layers), batch)
            if not address:
                raise MemoryError(f"no memory for batches of {batch}")
            self._open[key] = ctypes.c_void_p(address)
            weakref.finalize(self, getattr(self._library, f"close_{own}"), self._open[key])
        return self._open[key]


def _at(tensor: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


def _places(tensors: Sequence[Tensor | None]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * max(1, len(tensors)))(*(None if one is None else one.data_ptr() for one in tensors))


def _sizes(tensors: Sequence[Tensor]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * max(1, len(tensors)))(*(one[0].numel() for one in tensors))


AGREEMENT = 1e-10
"""Largest difference of a gradient in float64, where none is above 1."""


def agrees(library: ctypes.CDLL) -> bool:
    """Tell whether a library gives the loss and gradients of autograd on a small network that has all layers."""
    draws = stream(0, "a network with all layers")
    network = nn.Sequential(
        nn.Conv2d(2, 7, 3, padding=1), nn.MaxPool2d(2), nn.LeakyReLU(), nn.Conv2d(7, 5, (2, 3)), nn.ReLU(),
        nn.Flatten(), nn.Linear(40, 19), nn.ReLU(), nn.Linear(19, 3),
    ).double()  # fmt: skip
    weights = {name: draws.normal(1, *value.shape) / 4 for name, value in network.state_dict().items()}
    images = draws.normal(1, 11, 2, 10, 9)
    labels = draws.integers(0, 3, 1, 11)
    loss, found = LanesNetwork(network, (2, 10, 9), library).gradients(weights, Batch(images, labels, {}))
    leaves = {name: value[0].requires_grad_() for name, value in weights.items()}
    expected = F.cross_entropy(torch.func.functional_call(network, leaves, (images[0],)), labels[0])
    gradients = torch.autograd.grad(expected, list(leaves.values()))
    differences = [float((found[name][0] - value).abs().max()) for name, value in zip(leaves, gradients, strict=True)]
    return max(abs(float(loss[0]) - float(expected.detach())), *differences) < AGREEMENT
