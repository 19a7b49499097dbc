"""Clients whose batches are known: networks of many kinds, and pictures for them."""

import torch
from torch import Tensor, nn


def mlp(inputs: int = 64, width: int = 60, outputs: int = 10, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Return flatten, two hidden layers and a head, in float64, always the same."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(inputs, width),
        activation(),
        nn.Linear(width, width),
        activation(),
        nn.Linear(width, outputs),
    ).double()


def pictures(count: int, side: int = 8, channels: int = 1, seed: int = 1) -> Tensor:
    """Return smooth pictures on [0, 1] with black edges, [count, channels, side, side], float64."""
    draws = torch.Generator().manual_seed(seed)
    rough = torch.rand(count, channels, side // 2 + 1, side // 2 + 1, generator=draws, dtype=torch.float64)
    smooth = nn.functional.interpolate(rough, size=side, mode="bilinear", align_corners=True)
    inside = torch.zeros(side, dtype=torch.float64)
    inside[1:-1] = 1
    return ((smooth - 0.3).clamp(min=0) / 0.7) * inside * inside[:, None]
