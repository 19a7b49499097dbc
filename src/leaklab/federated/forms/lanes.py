"""Plain convolutional networks whose steps were compiled (``models/lanes``).

``plain_cnn`` and ``stacked`` are the oracles of the tests and do the work where there is no compiler.
"""

import ctypes
from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from leaklab.federated.batches import Batch, DropoutSite
from leaklab.federated.forms.stacked import dropout_sites
from leaklab.federated.optimizers import Weights
from leaklab.models.base import Shape
from leaklab.models.lanes import calls
from leaklab.models.lanes.description import Description, Layer

IMAGES = 64
"""In one forward pass of an evaluation: what a second cache holds of a small network's values."""

Other = Callable[[nn.Sequential, Shape], Any]


class LanesNetwork:
    """M models of a network of Conv2d, MaxPool2d, (leaky) ReLU, Dropout, Flatten and Linear layers, on a CPU.

    Attributes:
        dropouts: the dropout layers by name.
        buffers: none.
        other: the form that needs no compiler: for what lies on another device, and for what bounds the gradient of
            each sample, as here they are never apart.
    """

    buffers: tuple[str, ...] = ()

    def __init__(
        self, network: nn.Sequential, input_shape: Shape, library: ctypes.CDLL, make_other: Other | None = None
    ) -> None:
        """Describe ``network``, for which ``fits_lanes`` holds; ``make_other`` makes the other form."""
        self.dropouts: Mapping[str, DropoutSite] = dropout_sites(network, input_shape)
        self._descriptions = {dropping: Description.of(network, input_shape, dropping) for dropping in (False, True)}
        self.other = make_other(network, input_shape) if make_other else None
        self._opened = calls.Opened(library)

    def logits(self, weights: Weights, images: Tensor, masks: Mapping[str, Tensor]) -> Tensor:
        """Return the outputs [M, classes, B] in evaluation state; see ``StackedNetwork.logits``."""
        if self.other is not None and not calls.is_ours(images):
            outputs: Tensor = self.other.logits(weights, images, masks)
            return outputs
        description, parts = self._descriptions[False], torch.split(images, IMAGES, 1)
        with torch.no_grad():
            return torch.cat([calls.outputs(self._opened, description, weights, part) for part in parts], 2)

    def gradients(
        self, weights: Weights, batch: Batch, wanted: Collection[str] | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return each model's mean cross-entropy [M] and its gradient by name, [M, ...]."""
        if self.other is not None and not calls.is_ours(batch.images):
            found: tuple[Tensor, dict[str, Tensor]] = self.other.gradients(weights, batch, wanted)
            return found
        names = [name for name in weights if wanted is None or name in wanted]
        description = self._descriptions[bool(batch.masks)]
        with torch.no_grad():
            return calls.gradients(self._opened, description, weights, batch.images, batch.labels, batch.masks, names)

    def layers(self, dropping: bool) -> list[Layer]:
        """Return the layers as the library takes them."""
        return self._descriptions[dropping].layers

    def opened(self, own: str, batch: int, dropping: bool) -> ctypes.c_void_p:
        """Return the library's network for batches of one size.

        Args:
            own: ``float32`` or ``float64``.
            batch: samples.
            dropping: whether units are dropped, as in training.
        """
        return self._opened.get(own, self.layers(dropping), batch)
