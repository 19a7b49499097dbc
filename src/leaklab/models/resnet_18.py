"""ResNet-18 ("Deep Residual Learning for Image Recognition", table 1) as torchvision has it; LRP tables 2, 3 and 6."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import nn
from torchvision.models import resnet18

from leaklab.models.base import Architecture, Shape
from leaklab.records.errors import UserError

Stem = Literal["cifar", "imagenet"]


@dataclass(frozen=True)
class ResNet18(Architecture):
    """Four stages of two basic blocks with 64, 128, 256 and 512 channels; 11,173,962 parameters on CIFAR-10.

    Parameters have torchvision's names, so its state dicts load as they are.

    Attributes:
        batch_statistics: in training state samples mix; plans read it from the source.
        stem: ``cifar`` for a 3x3 convolution of stride 1 without pooling, as is usual for images of 32x32; ``imagenet``
            for torchvision's own 7x7 convolution of stride 2 and 3x3 max pooling.
        initialisation: scheme of ``models/initialisations.py``; ``he`` is the law of torchvision's ResNets.
    """

    batch_statistics: ClassVar[bool] = True

    stem: Stem = "cifar"
    initialisation: str = "he"

    def layers(self, input_shape: Shape, num_classes: int) -> Mapping[str, nn.Module]:
        """Return conv1, bn1, relu, maxpool (ImageNet stem only), layer1, ..., layer4, avgpool, flatten, fc.

        Raises:
            UserError: unknown stem.
        """
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


PLUGIN = ResNet18
