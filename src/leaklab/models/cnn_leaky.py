"""The convolutional networks of HyperFL: a small one for gray images and one more convolution for coloured ones."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from leaklab.models.base import Architecture, Shape, feature_count
from leaklab.records.bounds import Count
from leaklab.records.errors import UserError

# (channels, kernel, padding); HyperFL prints no sizes: these are of its public code (register Q-C4)
CONVOLUTIONS = ((16, 5, 0), (32, 5, 1), (64, 3, 1))


@dataclass(frozen=True)
class LeakyCNN(Architecture):
    """Convolutions, each with 2x2 max pooling and leaky ReLU, an affine layer with leaky ReLU, and the classifier.

    115,776 parameters without the classifier for 28x28 gray images (EMNIST, Fashion-MNIST), 106,400 with a third
    convolution for 32x32 coloured ones (CIFAR-10, CINIC-10). Pooling stands before the activation: the function is the
    same, as the activation is monotone, and a quarter of the numbers goes through it.

    Attributes:
        convolutions: 2, or 3 for coloured images.
        hidden: width of the affine layer.
        initialisation: scheme of ``models/initialisations.py``.
    """

    convolutions: Count = 2
    hidden: Count = 128
    initialisation: str = "pytorch"

    def layers(self, input_shape: Shape, num_classes: int) -> Mapping[str, nn.Module]:
        """Return conv1, pool1, act1, ..., flatten, fc1, act, fc2; fc2 is the classifier.

        Raises:
            UserError: ``convolutions`` is neither 2 nor 3, or the images are too small.
        """
        if self.convolutions not in (2, 3):
            raise UserError(f"model 'cnn-leaky' has 2 or 3 convolutions, not {self.convolutions}: set convolutions")
        features: dict[str, nn.Module] = {}
        channels = input_shape[0]
        for index, (width, kernel, padding) in enumerate(CONVOLUTIONS[: self.convolutions], start=1):
            features[f"conv{index}"] = nn.Conv2d(channels, width, kernel, padding=padding)
            features[f"pool{index}"] = nn.MaxPool2d(2)
            features[f"act{index}"] = nn.LeakyReLU()
            channels = width
        features["flatten"] = nn.Flatten()
        hidden = nn.Linear(feature_count(features, input_shape), self.hidden)
        return features | {"fc1": hidden, "act": nn.LeakyReLU(), "fc2": nn.Linear(self.hidden, num_classes)}


PLUGIN = LeakyCNN
