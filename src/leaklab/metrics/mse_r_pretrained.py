"""MSE-R in a trained network: the representation of a ResNet-20 that tells CIFAR-10's classes apart.

An untrained network's features mostly follow colour and contrast; those of a trained one also follow what is shown.
The network is the published one of 91.7 % test accuracy (github.com/akamaster/pytorch_resnet_cifar10).
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from leaklab.metrics.base import Metric, MetricCard
from leaklab.metrics.mse_r import representation_error
from leaklab.models.published import with_published
from leaklab.models.resnet_small import SmallResNet
from leaklab.records.weights import describe_weights, weights_path, why_unavailable

SHAPE, CLASSES = (3, 32, 32), 10
WEIGHTS = "resnet20-cifar10"


def published_resnet_20(path: Path) -> nn.Sequential:
    """Return the network with the weights of the published file, in evaluation state, on the CPU.

    Raises:
        UserError: the file holds something else.
    """
    network = SmallResNet(blocks=3).build(SHAPE, CLASSES).eval().requires_grad_(requires_grad=False)
    return with_published(network, path, describe_weights(WEIGHTS).renamed)


@dataclass(frozen=True)
class PretrainedRepresentationError(Metric):
    """MSE-R in the published ResNet-20.

    Attributes:
        weights: its name in ``config/weights.yaml``.
    """

    weights: ClassVar[str] = WEIGHTS

    @property
    def card(self) -> MetricCard:
        """Return the metric card."""
        return MetricCard(
            name="mse_r_pretrained",
            unit="",
            better="higher",
            domain="the 64 inputs of the last layer",
            peak=None,
            clamping="reconstruction clamped to [0, 1]",
            network="ResNet-20 trained on CIFAR-10 (91.7 % test accuracy), evaluation state",
            input_range="[0, 1], normalised by the mean and deviation of ImageNet's channels",
            note="gray repeated to three channels; sides other than 32 pixels brought to 32 (bilinear, antialiased); "
            "images other than CIFAR-10's are foreign to the network; not comparable with mse_r",
        )

    def available(self) -> str | None:
        """Return why the network's weights cannot be had, or None; fetches them if need be."""
        return why_unavailable(self.weights)

    def values(self, reconstruction: Tensor, truth: Tensor) -> Tensor:
        """Return the MSE-R of each image, [N], 0 for equal images.

        Raises:
            UserError: the weights cannot be had or are damaged.
        """
        network = _network(weights_path(self.weights), truth.device)
        return representation_error(lambda images: network(prepared(images)), reconstruction, truth)


def prepared(images: Tensor) -> Tensor:
    """Return images [n, 1 or 3, H, W] of [0, 1] as the network was trained on: [n, 3, 32, 32], normalised."""
    colored = images.expand(-1, 3, -1, -1)
    if colored.shape[1:] != SHAPE:
        colored = interpolate(colored, size=SHAPE[1:], mode="bilinear", align_corners=False, antialias=True)
    published = describe_weights(WEIGHTS)
    mean, deviation = (colored.new_tensor(values).view(3, 1, 1) for values in (published.mean, published.std))
    return (colored - mean) / deviation


@cache
def _network(path: Path, device: torch.device) -> nn.Sequential:
    """Return the network without its last layer."""
    return published_resnet_20(path)[:-1].to(device)


PLUGIN = PretrainedRepresentationError
