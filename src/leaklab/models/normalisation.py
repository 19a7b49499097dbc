"""Batch normalisation whose only state besides its parameters is the running mean and the running variance.

torch's layers also count their batches in an integer buffer that nothing reads (the momentum is a number). An average
over clients has no use for it, so it is taken out: all buffers that are left can be averaged as weights are.
"""

from collections import OrderedDict
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

COUNTER = "num_batches_tracked"


def batch_norms(network: nn.Module) -> dict[str, nn.BatchNorm2d]:
    """Return the batch normalisations by name, those inside blocks too."""
    return {name: layer for name, layer in network.named_modules() if isinstance(layer, nn.BatchNorm2d)}


def without_counters(network: nn.Module) -> nn.Module:
    """Take the batch counters out of ``network``, in place; a counter in a loaded state dict is then ignored."""
    for layer in batch_norms(network).values():
        layer.num_batches_tracked = None
        # torch adds the counter to any plain dict that lacks it, and then finds it unexpected
        layer.register_load_state_dict_pre_hook(_forget_counter)  # type: ignore[no-untyped-call]
    return network


def reset(layer: nn.BatchNorm2d) -> None:
    """Set weight and running variance to 1, bias and running mean to 0, so that the layer starts as the identity."""
    with torch.no_grad():
        for ones in (layer.weight, layer.running_var):
            if ones is not None:
                ones.fill_(1.0)
        for zeros in (layer.bias, layer.running_mean):
            if zeros is not None:
                zeros.zero_()


def _forget_counter(module: nn.Module, state: dict[str, Any], prefix: str, *others: Any) -> None:
    state.pop(prefix + COUNTER, None)


# A network whose batch normalisations use the batch, as in training, and keep no running statistics.

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


# A network that takes images on the [0, 1] scale in place of normalised ones.


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
