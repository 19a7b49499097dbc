"""The axis of figure-noise spans both ways to carry the printed noise over from ResNet-18 to the small network."""

from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits, load_sample_images
from torch import Tensor, nn

from leaklab.models.cnns import DLGLeNet
from leaklab.models.resnets import ResNet18
from leaklab.records.config import read_yaml

ITEM = Path(__file__).parents[2] / "config/items/lrp/figure-noise.yaml"
PRINTED = 0.1


def photographs() -> Tensor:
    """Return [2, 3, 224, 224] in [-1, 1]: the centres of two photographs."""
    centres = np.stack([image[100:324, 200:424] for image in load_sample_images().images])
    return torch.from_numpy(centres).permute(0, 3, 1, 2).float() / 127.5 - 1


def digits() -> Tensor:
    """Return [8, 1, 28, 28] in [0, 1]."""
    small = torch.from_numpy(load_digits().images[:8]).float()[:, None] / 16
    return nn.functional.interpolate(small, size=28, mode="bilinear")


def gradient_length(network: nn.Sequential, images: Tensor) -> tuple[float, int]:
    """Return the mean length of one image's gradient and how many numbers it has."""
    network.eval()
    lengths = []
    for label, image in enumerate(images):
        loss = nn.functional.cross_entropy(network(image[None]), torch.tensor([label]))
        gradient = torch.autograd.grad(loss, list(network.parameters()))
        lengths.append(float(torch.cat([part.flatten() for part in gradient]).norm()))
    return float(np.mean(lengths)), sum(parameter.numel() for parameter in network.parameters())


def test_both_readings_of_the_printed_sigma_lie_within_the_axis():
    large, many = gradient_length(ResNet18(stem="imagenet").initialised((3, 224, 224), 1000, seed=0), photographs())
    small, few = gradient_length(DLGLeNet().initialised((1, 28, 28), 10, seed=0), digits())
    by_entry = PRINTED * small / large
    by_length = by_entry * (many / few) ** 0.5
    strengths = read_yaml(ITEM)["runs"]["knowing"]["defense"]["sigma"]
    assert min(strengths) < by_entry < PRINTED < by_length < max(strengths)
