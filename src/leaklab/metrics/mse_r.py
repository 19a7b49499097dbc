"""MSE-R: mean squared difference of two images in the representation of an untrained ResNet-18.

Source: "Auditing Privacy Defenses in Federated Learning via Generative Gradient Leakage", which takes the inputs of
the attacked network's last layer, untrained and in evaluation state. A small value says that two images have the same
colours and contrasts, not that they show the same thing: unrelated images score low as well.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn

from leaklab.metrics.base import Metric, MetricCard
from leaklab.models.resnet_18 import ResNet18, Stem

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


PLUGIN = RepresentationError
