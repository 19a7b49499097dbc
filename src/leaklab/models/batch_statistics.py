"""A network whose batch normalisations use the batch, as in training, and keep no running statistics.

A network in training state moves its running statistics in place with every pass; who searches inputs must not. And
torch's own normalisations, mapped by ``torch.func``, have a wrong second derivative where they use the batch: they save
mean and deviation as constants. Here they are written out, so that a gradient can be differentiated.
"""

from copy import deepcopy
from typing import TypeVar

import torch
from torch import Tensor, nn

from leaklab.models.batch_norm import batch_norms

Network = TypeVar("Network", bound=nn.Module)


class BatchStatistics(nn.Module):
    """Batch normalisation of [B, C, H, W] by the mean and variance of the batch, with the parameters of a layer."""

    def __init__(self, layer: nn.BatchNorm2d) -> None:
        super().__init__()
        self.weight, self.bias, self.epsilon = layer.weight, layer.bias, layer.eps

    def forward(self, values: Tensor) -> Tensor:
        """Return the normalised values, of the same shape."""
        means = values.mean((0, 2, 3), keepdim=True)
        centred = values - means
        normal = centred * torch.rsqrt(centred.square().mean((0, 2, 3), keepdim=True) + self.epsilon)
        return normal * self.weight[:, None, None] + self.bias[:, None, None]


def with_batch_statistics(network: Network) -> Network:
    """Return a copy, in evaluation state, whose batch normalisations normalise by the batch; names stay."""
    copy = deepcopy(network).eval()
    for name, layer in batch_norms(copy).items():
        path, _, own = name.rpartition(".")
        setattr(copy.get_submodule(path), own, BatchStatistics(layer))
    return copy
