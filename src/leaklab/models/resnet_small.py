"""The residual networks for CIFAR of "Deep Residual Learning for Image Recognition", section 4.2, with 6n+2 layers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.models.resnet import BasicBlock

from leaklab.models.base import Architecture, Shape
from leaklab.records.bounds import Count
from leaklab.records.errors import UserError

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
        batch_statistics: in training state samples mix; plans read it from the source.
        blocks: n, basic blocks in each stage.
        width: channels of the first stage.
        initialisation: scheme of ``models/initialisations.py``; ``he`` is the one the source paper prescribes.
    """

    batch_statistics: ClassVar[bool] = True

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
        if inputs == outputs:
            first = BasicBlock(inputs, outputs)
        else:
            first = BasicBlock(inputs, outputs, stride=2, downsample=PaddedShortcut(2, outputs - inputs))
        return nn.Sequential(first, *(BasicBlock(outputs, outputs) for _ in range(self.blocks - 1)))


PLUGIN = SmallResNet
