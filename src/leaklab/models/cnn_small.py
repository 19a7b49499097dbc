"""The small convolutional network of LRP table 1."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from leaklab.models.base import Architecture, Shape, feature_count


@dataclass(frozen=True)
class SmallCNN(Architecture):
    """Two 5x5 convolutions (10, 20 channels, no padding), each with 2x2 max pooling and ReLU; FC50, dropout, FC.

    Attributes:
        dropout: probability to drop a unit of the hidden layer, after the activation.
        initialisation: scheme of ``models/initialisations.py``.
    """

    dropout: float = 0.5
    initialisation: str = "pytorch"

    def layers(self, input_shape: Shape, num_classes: int) -> Mapping[str, nn.Module]:
        """Return conv1, pool1, relu1, conv2, pool2, relu2, flatten, fc1, relu3, dropout1, fc2."""
        features: dict[str, nn.Module] = {
            "conv1": nn.Conv2d(input_shape[0], 10, 5),
            "pool1": nn.MaxPool2d(2),
            "relu1": nn.ReLU(),
            "conv2": nn.Conv2d(10, 20, 5),
            "pool2": nn.MaxPool2d(2),
            "relu2": nn.ReLU(),
            "flatten": nn.Flatten(),
        }
        return features | {
            "fc1": nn.Linear(feature_count(features, input_shape), 50),
            "relu3": nn.ReLU(),
            "dropout1": nn.Dropout(self.dropout),
            "fc2": nn.Linear(50, num_classes),
        }


PLUGIN = SmallCNN
