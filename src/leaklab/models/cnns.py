"""The layers that the convolutional networks of LRP share; only their widths differ (LRP section 4.1, appendix A.2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from leaklab.models.adapted import HEAD, PREFIX, ConvolutionAdapter, Tuning, inputs_of, is_frozen
from leaklab.models.base import Architecture, Shape, feature_count
from leaklab.records.bounds import Count, Natural, PartShare
from leaklab.records.errors import UserError
from leaklab.records.traits import ModelTraits


def convolutional_layers(
    input_shape: Shape, num_classes: int, channels: tuple[int, int], hidden: int, dropout: float
) -> dict[str, nn.Module]:
    """Return two 5x5 convolutions without padding, each with 2x2 max pooling and ReLU, and two affine layers.

    Args:
        input_shape: (channels, height, width) of one image.
        num_classes: number of outputs (logits).
        channels: output channels of the two convolutions.
        hidden: width of the hidden affine layer.
        dropout: probability to drop a hidden unit, after the activation; without it there is no such layer.

    Returns:
        conv1, pool1, relu1, conv2, pool2, relu2, flatten, fc1, relu3, dropout1 (if any), fc2.

    Raises:
        UserError: the images are too small.
    """
    first, second = channels
    features: dict[str, nn.Module] = {
        "conv1": nn.Conv2d(input_shape[0], first, 5),
        "pool1": nn.MaxPool2d(2),
        "relu1": nn.ReLU(),
        "conv2": nn.Conv2d(first, second, 5),
        "pool2": nn.MaxPool2d(2),
        "relu2": nn.ReLU(),
        "flatten": nn.Flatten(),
    }
    head: dict[str, nn.Module] = {
        "fc1": nn.Linear(feature_count(features, input_shape), hidden),
        "relu3": nn.ReLU(),
    }
    if dropout:
        head["dropout1"] = nn.Dropout(dropout)
    return features | head | {"fc2": nn.Linear(hidden, num_classes)}


# The small convolutional network of LRP table 1.


@dataclass(frozen=True)
class SmallCNN(Architecture):
    """Two 5x5 convolutions (10, 20 channels, no padding), each with 2x2 max pooling and ReLU; FC50, dropout, FC.

    Attributes:
        dropout: probability to drop a unit of the hidden layer, after the activation.
        initialisation: scheme of ``models/published.py``.
    """

    traits: ClassVar[ModelTraits] = ModelTraits(step_microseconds=3700.0, generative_milliseconds=0.5, weights_mb=0.09)

    dropout: PartShare = 0.5
    initialisation: str = "pytorch"

    def layers(self, input_shape: Shape, num_classes: int) -> Mapping[str, nn.Module]:
        """Return conv1, pool1, relu1, conv2, pool2, relu2, flatten, fc1, relu3, dropout1, fc2."""
        return convolutional_layers(input_shape, num_classes, channels=(10, 20), hidden=50, dropout=self.dropout)


# The convolutional network of LRP section 5 for MNIST and FEMNIST (tables 2 and 6).


@dataclass(frozen=True)
class MnistCNN(Architecture):
    """``cnn-small`` with 32 and 64 channels and 512 hidden units, without dropout; 582,026 parameters on MNIST.

    Attributes:
        initialisation: scheme of ``models/published.py``.
    """

    traits: ClassVar[ModelTraits] = ModelTraits(step_microseconds=20_000.0, generative_milliseconds=5.0, weights_mb=2.3)

    initialisation: str = "pytorch"

    def layers(self, input_shape: Shape, num_classes: int) -> Mapping[str, nn.Module]:
        """Return conv1, pool1, relu1, conv2, pool2, relu2, flatten, fc1, relu3, fc2."""
        return convolutional_layers(input_shape, num_classes, channels=(32, 64), hidden=512, dropout=0.0)


# The convolutional networks of HyperFL: a small one for gray images and one more convolution for coloured ones.

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
        initialisation: scheme of ``models/published.py``.
    """

    traits: ClassVar[ModelTraits] = ModelTraits(step_microseconds=5000.0, matching_milliseconds=0.5, weights_mb=0.48)

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


# The sigmoid LeNet that gradient inversion is usually shown on ("Deep Leakage from Gradients"; LRP table 4).

# LRP table 4 leaves strides and padding open; these are the DLG LeNet's, extended to four convolutions
STRIDES = (2, 2, 1, 1)
CHANNELS = 12


@dataclass(frozen=True)
class DLGLeNet(Architecture):
    """Convolutions 5x5 of 12 channels with padding 2, each followed by a sigmoid, and one affine layer.

    Smooth everywhere, so that a matching loss can be differentiated twice. The affine layer sees 588 features for
    28x28 images and 768 for 32x32.

    Attributes:
        n_conv: number of convolutions, 3 or 4 (strides 2, 2, 1, 1).
        initialisation: ``wide`` (DLG's own) or ``pytorch``.
    """

    traits: ClassVar[ModelTraits] = ModelTraits(
        step_microseconds=4500.0, matching_milliseconds=0.9, generative_milliseconds=0.5, weights_mb=0.1
    )

    n_conv: Count = 4
    initialisation: str = "wide"

    def layers(self, input_shape: Shape, num_classes: int) -> Mapping[str, nn.Module]:
        """Return conv1, act1, ..., flatten, fc.

        Raises:
            UserError: ``n_conv`` is neither 3 nor 4.
        """
        if self.n_conv not in (3, 4):
            raise UserError(f"model 'dlg-lenet' has 3 or 4 convolutions, not {self.n_conv}: set n_conv to 3 or 4")
        features: dict[str, nn.Module] = {}
        channels = input_shape[0]
        for index, stride in enumerate(STRIDES[: self.n_conv], start=1):
            features[f"conv{index}"] = nn.Conv2d(channels, CHANNELS, 5, stride=stride, padding=2)
            features[f"act{index}"] = nn.Sigmoid()
            channels = CHANNELS
        features["flatten"] = nn.Flatten()
        return features | {"fc": nn.Linear(feature_count(features, input_shape), num_classes)}


# SqueezeNet 1.1 as a frozen backbone with adapters: trained on ImageNet, and small enough for a processor.
#
# Source: F. Iandola et al., "SqueezeNet: AlexNet-level accuracy with 50x fewer parameters"; layers and weights are
# torchvision's. Stands in for the pretrained ResNet of HyperFL-LPM (``adapted.py``).


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
        from torchvision.models.squeezenet import Fire  # as slow to import as torch

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
    "cnn-leaky": LeakyCNN,
    "cnn-mnist": MnistCNN,
    "cnn-small": SmallCNN,
    "dlg-lenet": DLGLeNet,
    "squeezenet-adapted": AdaptedSqueezeNet,
}
