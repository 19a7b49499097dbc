"""Clients whose batches are known: networks of many kinds, and pictures for them."""

from functools import cache

import numpy as np
import torch
from skimage.data import lfw_subset
from torch import Tensor, nn
from torch.nn import functional as F


def draw_from(seed: int) -> None:
    """Let layers that are made next draw their weights from a seed: they have no generator but torch's own."""
    torch.manual_seed(seed)  # in a process of the benchmark's, which draws nothing else from it


def mlp(inputs: int = 64, width: int = 60, outputs: int = 10, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Return flatten, two hidden layers and a head, in float64, always the same."""
    draw_from(0)
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(inputs, width),
        activation(),
        nn.Linear(width, width),
        activation(),
        nn.Linear(width, outputs),
    ).double()


@cache
def _faces() -> Tensor:
    return torch.tensor(np.asarray(lfw_subset()), dtype=torch.float64)[:, None]


def pictures(count: int, side: int = 25, channels: int = 1, first: int = 0) -> tuple[Tensor, Tensor]:
    """Return faces of 8 bits on [0, 1], [count, channels, side, side], float64, and made-up labels of 10, [count].

    Channels are shifted against one another, so that they differ.
    """
    images = _faces()[first : first + count]
    if side != images.shape[-1]:
        images = F.interpolate(images, size=side, mode="bilinear", align_corners=True)
    shifted = torch.cat([images.roll(2 * channel, -1) for channel in range(channels)], 1)
    return (shifted * 255).round() / 255, (torch.arange(count) * 7 + first) % 10
