"""SqueezeNet 1.1 as a frozen backbone with adapters: trained on ImageNet, and small enough for a processor.

Source: F. Iandola et al., "SqueezeNet: AlexNet-level accuracy with 50x fewer parameters"; layers and weights are
torchvision's. Stands in for the pretrained ResNet of HyperFL-LPM (``adapted.py``).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import nn
from torchvision.models.squeezenet import Fire

from leaklab.models.adapted import HEAD, PREFIX, ConvolutionAdapter, Tuning, inputs_of, is_frozen
from leaklab.models.base import Architecture, Shape, feature_count
from leaklab.records.bounds import Count, Natural
from leaklab.records.traits import ModelTraits

FIRES = {
    "fire1": (64, 16, 64), "fire2": (128, 16, 64), "pool2": None,
    "fire3": (128, 32, 128), "fire4": (256, 32, 128), "pool3": None,
    "fire5": (256, 48, 192), "fire6": (384, 48, 192), "fire7": (384, 64, 256), "fire8": (512, 64, 256),
}  # fmt: skip
"""Channels that enter, of the squeeze, and of either half of the expansion; None shrinks the image."""
ADAPTED = {"pool3": 256, "fire8": 512}
"""Last layers of the stages behind which adapters stand, with their channels."""


@dataclass(frozen=True)
class AdaptedSqueezeNet(Architecture):
    """The features of torchvision's ``squeezenet1_1``, two adapters, and a head of its own behind their mean.

    Adapters stand behind the third and the fourth stage; as ResNet-18's four they have a third of a million weights.
    What comes before is the same for an image in every step.

    Attributes:
        tuning: ``adapter`` trains adapters and head; ``fixed`` has no adapters and trains the head alone.
        channels: that the backbone takes.
        side: images are enlarged to so many pixels first; 0 for as they are.
        initialisation: scheme of ``models/published.py``, of what is not published.
    """

    traits: ClassVar[ModelTraits] = ModelTraits(
        batch_statistics=True, has_frozen_part=True, step_microseconds=30_000.0, weights_mb=1.5
    )

    tuning: Tuning = "adapter"
    channels: Count = 3
    side: Natural = 64
    initialisation: str = "he"

    def layers(self, input_shape: Shape, num_classes: int) -> Mapping[str, nn.Module]:
        """Return colours and resize (where images need them), conv1 to fire8 with adapters, avgpool, flatten, fc.

        Raises:
            UserError: images of other channels, or too small ones.
        """
        layers, _ = inputs_of(input_shape, self.channels, self.side)
        layers |= {"conv1": nn.Conv2d(self.channels, 64, 3, stride=2), "relu": nn.ReLU(inplace=True), "pool1": _pool()}
        for name, sizes in FIRES.items():
            layers[name] = Fire(*sizes, sizes[2]) if sizes else _pool()
            if self.tuning == "adapter" and name in ADAPTED:
                layers[f"{PREFIX}{list(ADAPTED).index(name) + 1}"] = ConvolutionAdapter(ADAPTED[name])
        layers |= {"avgpool": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten()}
        return layers | {HEAD: nn.Linear(feature_count(layers, input_shape), num_classes)}

    def frozen(self, name: str) -> bool:
        """Tell whether a tensor is the backbone's."""
        return is_frozen(name)


def _pool() -> nn.MaxPool2d:
    return nn.MaxPool2d(3, stride=2, ceil_mode=True)


PLUGINS = {
    "squeezenet-adapted": AdaptedSqueezeNet,
}
