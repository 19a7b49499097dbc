"""What every model plug-in is: settings that build an ``nn.Sequential`` of named layers or blocks of layers."""

from collections import OrderedDict
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from leaklab.models.normalisation import batch_norms, reset, without_counters
from leaklab.models.published import initialise
from leaklab.records.errors import UserError
from leaklab.records.purity import watched
from leaklab.records.streams import stream
from leaklab.records.traits import ModelTraits

Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Architecture:
    """Base of all models; a subclass declares its settings as fields and its layers in ``layers``.

    A subclass must have a field ``initialisation`` (a scheme of ``models/published.py``).

    Attributes:
        traits: what plans want to know of it.
    """

    traits: ClassVar[ModelTraits] = ModelTraits()

    initialisation: str

    def layers(self, input_shape: Shape, num_classes: int) -> Mapping[str, nn.Module]:
        """Return the layers in order, by name (``conv1``, ``fc1``), for images of shape (channels, height, width).

        A layer may be a block of others. Dropout must stand on its own, as ``nn.Dropout``: inside a block nobody could
        give it its mask, and it would draw from the global generator.
        """
        raise NotImplementedError  # every model has its own layers; tests build each of them

    def frozen(self, name: str) -> bool:
        """Tell whether a parameter or running statistic never moves: a backbone, given from outside; here none is."""
        return False

    def build(self, input_shape: Shape, num_classes: int) -> nn.Sequential:
        """Return the network with all parameters zero, float32 on the CPU; torch's generators are not touched.

        Its only buffers are the running means (0) and variances (1) of batch normalisations.

        Args:
            input_shape: (channels, height, width) of one image.
            num_classes: number of outputs (logits).

        Raises:
            UserError: the images are too small for the layers.
        """
        with torch.device("meta"):  # torch's constructors would otherwise draw from the global generator
            network = nn.Sequential(OrderedDict(self.layers(input_shape, num_classes)))
        without_counters(network)
        network = network.to_empty(device="cpu")
        for layer in batch_norms(network).values():
            reset(layer)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.zero_()
        return network

    def initialised(
        self, input_shape: Shape, num_classes: int, seed: int, dtype: torch.dtype = torch.float32
    ) -> nn.Sequential:
        """Return the network with the initial weights of ``seed``; float32 is the rounded float64 draw."""
        with watched(self, call="layers", draws="no randomness: weights come from 'initialisation' and a seed"):
            network = self.build(input_shape, num_classes).to(dtype)
        initialise(network, stream(seed, "initialisation"), self.initialisation)
        return network


def feature_count(layers: Mapping[str, nn.Module], input_shape: Shape) -> int:
    """Return how many numbers per image leave ``layers``; call it where layers are made, on the meta device.

    Raises:
        UserError: the images are too small for the layers.
    """
    network = nn.Sequential(OrderedDict(layers))
    try:
        # in training state batch normalisation refuses a single value per channel
        features = network.eval()(torch.empty(1, *input_shape, device="meta"))
    except RuntimeError:
        size = "x".join(str(side) for side in input_shape)
        raise UserError(f"images of {size} are too small for this model: choose another model or dataset") from None
    network.train()
    return int(features.numel())


# A network in rows: one per layer, with kernel, channels, output shape and parameter count (LRP table 4).


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
