"""Small layers between the frozen ones of a pretrained network: what is trained, or generated, in their place.

Sources: "Parameter-Efficient Transfer Learning for NLP", figure 2, for the bottleneck of transformers; HyperFL section
3.3, whose public code has one after each perceptron of a ViT and one after each stage of a ResNet (specification 7).
"""

from collections.abc import Mapping
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from leaklab.models.base import Shape
from leaklab.models.vit import LayerNorm
from leaklab.records.errors import UserError

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
