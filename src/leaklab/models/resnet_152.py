"""ResNet-152 ("Deep Residual Learning for Image Recognition", table 1) as torchvision has it; OUTPOST table IV."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn
from torchvision.models import resnet152

from leaklab.models.base import Shape
from leaklab.models.resnet_18 import ResNet18

STEM = ("conv1", "bn1", "relu", "maxpool")
"""What does not depend on the depth."""


@dataclass(frozen=True)
class ResNet152(ResNet18):
    """Four stages of 3, 8, 36 and 3 bottlenecks behind the first layer of ``resnet-18``.

    58,341,028 parameters on CIFAR-100.
    """

    def layers(self, input_shape: Shape, num_classes: int) -> Mapping[str, nn.Module]:
        """Return the layers of ``resnet-18``, by the same names.

        Raises:
            UserError: unknown stem.
        """
        shallow = super().layers(input_shape, num_classes)
        deep = dict(resnet152(num_classes=num_classes).named_children())
        return {name: layer if name in STEM else deep.get(name, layer) for name, layer in shallow.items()}


PLUGIN = ResNet152
