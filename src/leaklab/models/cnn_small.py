"""The small convolutional network of LRP table 1."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from leaklab.models.base import Architecture, Shape
from leaklab.models.cnn import convolutional_layers
from leaklab.records.bounds import PartShare


@dataclass(frozen=True)
class SmallCNN(Architecture):
    """Two 5x5 convolutions (10, 20 channels, no padding), each with 2x2 max pooling and ReLU; FC50, dropout, FC.

    Attributes:
        dropout: probability to drop a unit of the hidden layer, after the activation.
        initialisation: scheme of ``models/initialisations.py``.
    """

    dropout: PartShare = 0.5
    initialisation: str = "pytorch"

    def layers(self, input_shape: Shape, num_classes: int) -> Mapping[str, nn.Module]:
        """Return conv1, pool1, relu1, conv2, pool2, relu2, flatten, fc1, relu3, dropout1, fc2."""
        return convolutional_layers(input_shape, num_classes, channels=(10, 20), hidden=50, dropout=self.dropout)


PLUGIN = SmallCNN
