"""The convolutional network of LRP section 5 for MNIST and FEMNIST (tables 2 and 6)."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from leaklab.models.base import Architecture, Shape
from leaklab.models.cnn import convolutional_layers


@dataclass(frozen=True)
class MnistCNN(Architecture):
    """``cnn-small`` with 32 and 64 channels and 512 hidden units, without dropout; 582,026 parameters on MNIST.

    Attributes:
        initialisation: scheme of ``models/initialisations.py``.
    """

    initialisation: str = "pytorch"

    def layers(self, input_shape: Shape, num_classes: int) -> Mapping[str, nn.Module]:
        """Return conv1, pool1, relu1, conv2, pool2, relu2, flatten, fc1, relu3, fc2."""
        return convolutional_layers(input_shape, num_classes, channels=(32, 64), hidden=512, dropout=0.0)


PLUGIN = MnistCNN
