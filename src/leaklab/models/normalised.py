"""A network that takes images on the [0, 1] scale in place of normalised ones."""

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Normalisation(nn.Module):
    """(x - mean) / std per channel of [..., C, H, W]; it has no parameters and nothing to save."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        """Keep one mean and one standard deviation a channel, both on the [0, 1] scale."""
        super().__init__()
        for name, values in (("mean", mean), ("std", std)):
            value = torch.tensor(values, dtype=torch.float64)[:, None, None]
            self.register_buffer(name, value, persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Return the normalised images, of the same dtype."""
        return (images - self.mean.to(images)) / self.std.to(images)


def normalised(network: nn.Sequential, mean: Sequence[float], std: Sequence[float]) -> nn.Sequential:
    """Return the network behind a normalisation; its parameters keep their names."""
    return nn.Sequential(OrderedDict([("normalisation", Normalisation(mean, std)), *network.named_children()]))


def unnormalised(network: nn.Sequential, inputs: Tensor) -> Tensor:
    """Return the images [..., C, H, W] that a network's layers see as ``inputs``.

    Images on the [0, 1] scale behind a normalisation, else the inputs as they are.
    """
    first = network[0]
    if not isinstance(first, Normalisation):
        return inputs
    return inputs * first.std.to(inputs) + first.mean.to(inputs)
