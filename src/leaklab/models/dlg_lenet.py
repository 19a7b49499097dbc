"""The sigmoid LeNet that gradient inversion is usually shown on ("Deep Leakage from Gradients"; LRP table 4)."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from leaklab.models.base import Architecture, Shape, feature_count
from leaklab.records.bounds import Count
from leaklab.records.errors import UserError

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


PLUGIN = DLGLeNet
