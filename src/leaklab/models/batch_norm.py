"""Batch normalisation whose only state besides its parameters is the running mean and the running variance.

torch's layers also count their batches in an integer buffer that nothing reads (the momentum is a number). An average
over clients has no use for it, so it is taken out: all buffers that are left can be averaged as weights are.
"""

from typing import Any

import torch
from torch import nn

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
