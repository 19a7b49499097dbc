"""Small layers between the frozen ones of a pretrained network: what is trained, or generated, in their place.

Sources: "Parameter-Efficient Transfer Learning for NLP", figure 2, for the bottleneck of transformers; HyperFL section
3.3, whose public code has one after each perceptron of a ViT and one after each stage of a ResNet (specification 7).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from leaklab.models.base import Shape
from leaklab.models.resnets import ResNet18, SmallResNet, Stem
from leaklab.models.vit import Block, LayerNorm, VisionTransformer
from leaklab.records.bounds import Count, Natural
from leaklab.records.errors import UserError
from leaklab.records.traits import ModelTraits

Tuning = Literal["adapter", "fixed"]
"""What a client may change beside the head: the adapters, or nothing (there are none then)."""
PREFIX = "adapter"
HEAD = "fc"


class ConvolutionAdapter(nn.Module):
    """norm(x + conv(norm(x))) with a 1x1 convolution: [B, C, H, W] -> the same shape."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)
        self.conv = nn.Conv2d(channels, channels, 1, bias=False)

    def forward(self, values: Tensor) -> Tensor:
        """Return the adapted values."""
        out: Tensor = self.norm2(values + self.conv(self.norm1(values)))
        return out


class BottleneckAdapter(nn.Module):
    """x + up(relu(down(norm(x)))), for each token: [B, N, width] -> the same shape."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.norm = LayerNorm(width)
        self.down, self.up = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the adapted tokens."""
        out: Tensor = tokens + self.up(F.relu(self.down(self.norm(tokens))))
        return out


class StillBatchNorm2d(nn.BatchNorm2d):
    """A frozen batch normalisation: it uses its running statistics in every state, and they never move."""

    def train(self, mode: bool = True) -> "StillBatchNorm2d":
        """Stay in evaluation state."""
        super().train(False)
        return self


class Colours(nn.Module):
    """Gray images for a network of coloured ones: [B, 1, H, W] -> [B, C, H, W]."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels

    def forward(self, images: Tensor) -> Tensor:
        """Return each image with its only channel C times."""
        return images.expand(-1, self.channels, -1, -1)


def is_frozen(name: str) -> bool:
    """Tell whether a parameter or running statistic is the backbone's: neither the head's nor an adapter's."""
    parts = name.split(".")
    return parts[0] != HEAD and not any(part.startswith(PREFIX) for part in parts)


def still(module: nn.Module) -> nn.Module:
    """Replace the batch normalisations of ``module`` by frozen ones, in place; names stay."""
    for name, child in module.named_children():
        if isinstance(child, nn.BatchNorm2d):
            setattr(module, name, StillBatchNorm2d(child.num_features))
        else:
            still(child)
    return StillBatchNorm2d(module.num_features) if isinstance(module, nn.BatchNorm2d) else module


def adapted_stages(layers: Mapping[str, nn.Module], tuning: Tuning) -> dict[str, nn.Module]:
    """Return a ResNet's layers, frozen, with an adapter after each stage where adapters are trained."""
    found: dict[str, nn.Module] = {}
    for name, layer in layers.items():
        found[name] = layer if name == HEAD else still(layer)
        if tuning == "adapter" and name.startswith("layer"):
            kernels = [part.out_channels for part in layer.modules() if isinstance(part, nn.Conv2d)]
            found[PREFIX + name.removeprefix("layer")] = ConvolutionAdapter(kernels[-1])
    return found


def inputs_of(images: Shape, channels: int, side: int) -> tuple[dict[str, nn.Module], Shape]:
    """Return the layers that make images fit a backbone, and the shape of what leaves them.

    Args:
        images: (channels, height, width) of one.
        channels: that the backbone takes; gray images get them.
        side: images are enlarged to so many pixels first (bilinear); 0 for as they are.

    Raises:
        UserError: images of other channels.
    """
    if images[0] not in (1, channels):
        raise UserError(
            f"a backbone of {channels} channels takes images of as many or of one, not of {images[0]}: set channels"
        )
    layers: dict[str, nn.Module] = {} if images[0] == channels else {"colours": Colours(channels)}
    if side:
        layers["resize"] = nn.Upsample(size=(side, side), mode="bilinear")
    height, width = (side, side) if side else images[1:]
    return layers, (channels, height, width)


# ``resnet-18`` as a frozen backbone with four adapters: the ResNet of HyperFL-LPM (specification 7).


@dataclass(frozen=True)
class AdaptedResNet18(ResNet18):
    """The layers of ``resnet-18`` by their names, adapter1 to adapter4 after its stages, and a head of its own.

    Attributes:
        stem: of the backbone; published ones are ImageNet's.
        tuning: ``adapter`` trains adapters and head; ``fixed`` has no adapters and trains the head alone.
        channels: that the backbone takes.
        side: images are enlarged to so many pixels first; 0 for as they are.
    """

    traits: ClassVar[ModelTraits] = ModelTraits(
        batch_statistics=True, has_frozen_part=True, step_microseconds=2_000_000.0, weights_mb=1.0
    )

    stem: Stem = "imagenet"
    tuning: Tuning = "adapter"
    channels: Count = 3
    side: Natural = 224

    def layers(self, input_shape: Shape, num_classes: int) -> Mapping[str, nn.Module]:
        """Return colours and resize (where images need them), the layers of ``resnet-18``, and adapters.

        Raises:
            UserError: images of other channels.
        """
        first, shape = inputs_of(input_shape, self.channels, self.side)
        return first | adapted_stages(super().layers(shape, num_classes), self.tuning)

    def frozen(self, name: str) -> bool:
        """Tell whether a tensor is the backbone's."""
        return is_frozen(name)


# ``resnet-small`` as a frozen backbone with an adapter after each stage; stands in for HyperFL-LPM's ResNet.


@dataclass(frozen=True)
class AdaptedSmallResNet(SmallResNet):
    """The layers of ``resnet-small`` by their names, adapter1 to adapter3 between them, and a head of its own.

    Attributes:
        tuning: ``adapter`` trains adapters and head; ``fixed`` has no adapters and trains the head alone.
        channels: that the backbone takes.
        side: images are enlarged to so many pixels first; 0 for as they are.
    """

    traits: ClassVar[ModelTraits] = ModelTraits(
        batch_statistics=True, has_frozen_part=True, step_microseconds=25_000.0, weights_mb=0.1
    )

    tuning: Tuning = "adapter"
    channels: Count = 3
    side: Natural = 0

    def layers(self, input_shape: Shape, num_classes: int) -> Mapping[str, nn.Module]:
        """Return colours and resize (where images need them), the layers of ``resnet-small``, and adapters.

        Raises:
            UserError: images of other channels.
        """
        first, shape = inputs_of(input_shape, self.channels, self.side)
        return first | adapted_stages(super().layers(shape, num_classes), self.tuning)

    def frozen(self, name: str) -> bool:
        """Tell whether a tensor is the backbone's."""
        return is_frozen(name)


# ``vit`` as a frozen backbone with an adapter after each perceptron: the ViT of HyperFL-LPM (specification 7).


class AdaptedBlock(Block):
    """A block of ``vit`` and an adapter behind it."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__(width, heads)
        self.adapter = BottleneckAdapter(width, hidden)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the new tokens."""
        out: Tensor = self.adapter(super().forward(tokens))
        return out


@dataclass(frozen=True)
class AdaptedVisionTransformer(VisionTransformer):
    """The layers of ``vit`` by their names, an adapter in each block, and a head of its own.

    Attributes:
        tuning: ``adapter`` trains adapters and head; ``fixed`` has no adapters and trains the head alone.
        channels: that the backbone takes.
        reduction: the width over that of an adapter's inside.
    """

    traits: ClassVar[ModelTraits] = ModelTraits(has_frozen_part=True, step_microseconds=25_000.0, weights_mb=0.2)

    tuning: Tuning = "adapter"
    channels: Count = 3
    reduction: Count = 16

    def layers(self, input_shape: Shape, num_classes: int) -> Mapping[str, nn.Module]:
        """Return colours (where images are gray) and the layers of ``vit``, its blocks with adapters.

        Raises:
            UserError: images of other channels, or that patches do not fill.
        """
        first, shape = inputs_of(input_shape, self.channels, 0)
        layers = dict(super().layers(shape, num_classes))
        if self.tuning == "adapter":
            hidden = max(1, self.width // self.reduction)
            layers["blocks"] = nn.Sequential(
                *(AdaptedBlock(self.width, self.heads, hidden) for _ in range(self.blocks))
            )
        return first | layers

    def frozen(self, name: str) -> bool:
        """Tell whether a tensor is the backbone's."""
        return is_frozen(name)


PLUGINS = {
    "resnet-18-adapted": AdaptedResNet18,
    "resnet-small-adapted": AdaptedSmallResNet,
    "vit-adapted": AdaptedVisionTransformer,
}
