"""MSE-R in a trained network: the representation of a ResNet-20 that tells CIFAR-10's classes apart.

An untrained network's features mostly follow colour and contrast; those of a trained one also follow what is shown.
The network is the published one of 91.7 % test accuracy (github.com/akamaster/pytorch_resnet_cifar10).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from leaklab.data.download import describe_weights, weights_path, why_unavailable
from leaklab.metrics.base import Metric, MetricCard
from leaklab.models.published import with_published
from leaklab.models.resnets import ResNet18, SmallResNet, Stem

# MSE-R: mean squared difference of two images in the representation of an untrained ResNet-18.

SEED = 0
LARGEST_CIFAR_SIDE = 64
IMAGES_PER_PASS = 32


def representation_error(features: Callable[[Tensor], Tensor], reconstruction: Tensor, truth: Tensor) -> Tensor:
    """Return the mean squared difference of the features of each pair of images.

    Args:
        features: images [n, C, H, W], float32 in [0, 1] -> [n, F].
        reconstruction: [N, C, H, W] on the [0, 1] scale; clamped here.
        truth: the same shape, in [0, 1].

    Returns:
        float64, [N], on the CPU.
    """
    pairs = zip(torch.split(reconstruction, IMAGES_PER_PASS), torch.split(truth, IMAGES_PER_PASS), strict=True)
    with torch.no_grad():
        found = [[features(images.float().clamp(0, 1)).double() for images in pair] for pair in pairs]
    return torch.cat([(guess - original).square().mean(1) for guess, original in found]).cpu()


@dataclass(frozen=True)
class RepresentationError(Metric):
    """MSE-R in an untrained ResNet-18.

    Attributes:
        seed: of the network's initial weights; a capture with this seed attacks the very same network.
    """

    seed: int = SEED

    @property
    def card(self) -> MetricCard:
        """Return the metric card."""
        return MetricCard(
            name="mse_r",
            unit="",
            better="higher",
            domain="the 512 inputs of the last layer",
            peak=None,
            clamping="reconstruction clamped to [0, 1]",
            network=f"ResNet-18, untrained (initialisation he, seed {self.seed}), evaluation state; stem cifar for "
            f"sides up to {LARGEST_CIFAR_SIDE} pixels, imagenet above",
            input_range="[-1, 1]",
            note="the attacked network's own features where the capture has this model, stem and seed and shows it "
            "images on [-1, 1], whatever its number of classes; gray images enter a network of one channel; unrelated "
            "images score low as well: read it beside the line of the unrelated image",
        )

    def values(self, reconstruction: Tensor, truth: Tensor) -> Tensor:
        """Return the MSE-R of each image, [N], 0 for equal images."""
        stem: Stem = "cifar" if max(truth.shape[-2:]) <= LARGEST_CIFAR_SIDE else "imagenet"
        network = _network(stem, truth.shape[1], self.seed, truth.device)
        return representation_error(lambda images: network(2 * images - 1), reconstruction, truth)


@cache
def _network(stem: Stem, channels: int, seed: int, device: torch.device) -> nn.Sequential:
    """Return the network without its last layer, whose draws come last: the number of classes changes nothing."""
    shape = (channels, LARGEST_CIFAR_SIDE, LARGEST_CIFAR_SIDE)
    network = ResNet18(stem=stem).initialised(shape, num_classes=1, seed=seed)
    return network[:-1].eval().requires_grad_(requires_grad=False).to(device)


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
        network = _network_of_mse_r_pretrained(weights_path(self.weights), truth.device)
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
def _network_of_mse_r_pretrained(path: Path, device: torch.device) -> nn.Sequential:
    """Return the network without its last layer."""
    return published_resnet_20(path)[:-1].to(device)


PLUGINS = {
    "mse-r": RepresentationError,
    "mse-r-pretrained": PretrainedRepresentationError,
}
