"""The residual networks for CIFAR of "Deep Residual Learning for Image Recognition", section 4.2, with 6n+2 layers."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from leaklab.models.base import Architecture, Shape
from leaklab.records.bounds import Count, PartShare, Positive
from leaklab.records.errors import UserError
from leaklab.records.traits import ModelTraits

STAGES = 3


class PaddedShortcut(nn.Module):
    """Shortcut without parameters (option A): every ``stride``-th pixel, and new channels that are zero."""

    def __init__(self, stride: int, new_channels: int) -> None:
        """Remember the geometry; half of the new channels come before the old ones, half after them."""
        super().__init__()
        self.stride = stride
        self.before = new_channels // 2
        self.after = new_channels - self.before

    def forward(self, values: Tensor) -> Tensor:
        """[B, C, H, W] -> [B, C + new, ceil(H / stride), ceil(W / stride)]."""
        kept = values[:, :, :: self.stride, :: self.stride]
        return F.pad(kept, (0, 0, 0, 0, self.before, self.after))


@dataclass(frozen=True)
class SmallResNet(Architecture):
    """Three stages of ``blocks`` basic blocks; every stage halves the image and doubles the channels.

    The stand-in for ResNet-18 at CPU scale: ResNet-8 has 75,290 parameters on CIFAR-10, ResNet-20 (``blocks: 3``)
    269,722.

    Attributes:
        blocks: n, basic blocks in each stage.
        width: channels of the first stage.
        initialisation: scheme of ``models/published.py``; ``he`` is the one the source paper prescribes.
    """

    traits: ClassVar[ModelTraits] = ModelTraits(
        batch_statistics=True,
        step_microseconds=48_000.0,
        measured_width=16,
        weights_mb=0.3,
    )

    blocks: Count = 1
    width: Count = 16
    initialisation: str = "he"

    def layers(self, input_shape: Shape, num_classes: int) -> Mapping[str, nn.Module]:
        """Return conv1, bn1, relu, layer1, layer2, layer3, avgpool, flatten, fc.

        Raises:
            UserError: ``blocks`` or ``width`` is not positive.
        """
        if self.blocks < 1 or self.width < 1:
            raise UserError("model 'resnet-small' needs at least one block and one channel: raise blocks or width")
        parts: dict[str, nn.Module] = {
            "conv1": nn.Conv2d(input_shape[0], self.width, 3, padding=1, bias=False),
            "bn1": nn.BatchNorm2d(self.width),
            "relu": nn.ReLU(inplace=True),
        }
        inputs = self.width
        for stage in range(STAGES):
            outputs = self.width * 2**stage
            parts[f"layer{stage + 1}"] = self._stage(inputs, outputs)
            inputs = outputs
        head = nn.Linear(inputs, num_classes)
        return parts | {"avgpool": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten(), "fc": head}

    def _stage(self, inputs: int, outputs: int) -> nn.Sequential:
        from torchvision.models.resnet import BasicBlock  # as slow to import as torch, so not for other networks

        if inputs == outputs:
            first = BasicBlock(inputs, outputs)
        else:
            first = BasicBlock(inputs, outputs, stride=2, downsample=PaddedShortcut(2, outputs - inputs))
        return nn.Sequential(first, *(BasicBlock(outputs, outputs) for _ in range(self.blocks - 1)))


# ResNet-18 ("Deep Residual Learning for Image Recognition", table 1) as torchvision has it; LRP tables 2, 3 and 6.

Stem = Literal["cifar", "imagenet"]


@dataclass(frozen=True)
class ResNet18(Architecture):
    """Four stages of two basic blocks with 64, 128, 256 and 512 channels; 11,173,962 parameters on CIFAR-10.

    Parameters have torchvision's names, so its state dicts load as they are.

    Attributes:
        stem: ``cifar`` for a 3x3 convolution of stride 1 without pooling, as is usual for images of 32x32; ``imagenet``
            for torchvision's own 7x7 convolution of stride 2 and 3x3 max pooling.
        initialisation: scheme of ``models/published.py``; ``he`` is the law of torchvision's ResNets.
    """

    traits: ClassVar[ModelTraits] = ModelTraits(
        batch_statistics=True,
        step_microseconds=780_000.0,
        matching_milliseconds=28.0,
        generative_milliseconds=300.0,
        weights_mb=45.0,
    )

    stem: Stem = "cifar"
    initialisation: str = "he"

    def layers(self, input_shape: Shape, num_classes: int) -> Mapping[str, nn.Module]:
        """Return conv1, bn1, relu, maxpool (ImageNet stem only), layer1, ..., layer4, avgpool, flatten, fc.

        Raises:
            UserError: unknown stem.
        """
        from torchvision.models import resnet18  # slow to import

        if self.stem not in ("cifar", "imagenet"):
            raise UserError(f"model 'resnet-18' has no stem '{self.stem}': set stem to cifar or imagenet")
        parts: dict[str, nn.Module] = dict(resnet18(num_classes=num_classes).named_children())
        channels, width = input_shape[0], 64
        if self.stem == "cifar":
            parts["conv1"] = nn.Conv2d(channels, width, 3, padding=1, bias=False)
            del parts["maxpool"]
        else:
            parts["conv1"] = nn.Conv2d(channels, width, 7, stride=2, padding=3, bias=False)
        head = parts.pop("fc")
        return parts | {"flatten": nn.Flatten(), "fc": head}


# ResNet-152 ("Deep Residual Learning for Image Recognition", table 1) as torchvision has it; OUTPOST table IV.

STEM = ("conv1", "bn1", "relu", "maxpool")
"""What does not depend on the depth."""


@dataclass(frozen=True)
class ResNet152(ResNet18):
    """Four stages of 3, 8, 36 and 3 bottlenecks behind the first layer of ``resnet-18``.

    58,341,028 parameters on CIFAR-100.
    """

    traits: ClassVar[ModelTraits] = ModelTraits(
        batch_statistics=True, step_microseconds=45_000.0, matching_milliseconds=218.0, weights_mb=233.0
    )

    def layers(self, input_shape: Shape, num_classes: int) -> Mapping[str, nn.Module]:
        """Return the layers of ``resnet-18``, by the same names.

        Raises:
            UserError: unknown stem.
        """
        from torchvision.models import resnet152  # slow to import

        shallow = super().layers(input_shape, num_classes)
        deep = dict(resnet152(num_classes=num_classes).named_children())
        return {name: layer if name in STEM else deep.get(name, layer) for name, layer in shallow.items()}


# ReXNet ("Rethinking Channel Dimensions for Efficient Model Design") as timm has it; LRP table 2, ImageNet.


@dataclass(frozen=True)
class ReXNet(Architecture):
    """Inverted bottlenecks whose channels grow linearly with depth; LRP's "RexNet-130" is timm's ``rexnet_130``.

    Parameters have timm's names, except that ``head.fc`` is called ``fc``.

    Attributes:
        width: multiplier of all channels, 1.3 in LRP.
        dropout: probability to drop a feature before the affine layer; LRP states none, ReXNet's authors use 0.2.
        initialisation: scheme of ``models/published.py``; ``he`` is timm's law for ReXNet, except that timm
            takes the affine layer's fan-out for its fan-in and starts its bias at zero.
    """

    traits: ClassVar[ModelTraits] = ModelTraits(batch_statistics=True, step_microseconds=45_000.0, weights_mb=20.0)

    width: Positive = 1.3
    dropout: PartShare = 0.0
    initialisation: str = "he"

    def layers(self, input_shape: Shape, num_classes: int) -> Mapping[str, nn.Module]:
        """Return stem, features, avgpool, flatten, dropout1 (if any), fc.

        Raises:
            UserError: timm is not installed.
        """
        whole = _timm_rexnet()(in_chans=input_shape[0], num_classes=num_classes, width_mult=self.width)
        parts: dict[str, nn.Module] = {"stem": whole.stem, "features": whole.features}
        head: dict[str, nn.Module] = {"avgpool": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten()}
        if self.dropout:
            head["dropout1"] = nn.Dropout(self.dropout)
        return parts | head | {"fc": nn.Linear(whole.num_features, num_classes)}


def _timm_rexnet() -> Any:
    # only this model needs timm: whoever trains another one need not have it
    try:
        return import_module("timm.models.rexnet").RexNet
    except ModuleNotFoundError as error:
        if error.name != "timm":
            raise
        raise UserError("model 'rexnet' needs the package timm: pip install timm") from None


PLUGINS = {
    "resnet-152": ResNet152,
    "resnet-18": ResNet18,
    "resnet-small": SmallResNet,
    "rexnet": ReXNet,
}
