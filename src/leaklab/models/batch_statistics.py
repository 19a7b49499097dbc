"""A network whose batch normalisations use the batch, as in training, and keep no running statistics.

A network in training state moves its running statistics in place with every pass. Who searches inputs must not, and
``torch.func.vmap`` cannot: without running statistics both states are the same, and every copy of a mapped network
normalises by its own batch.
"""

from copy import deepcopy
from typing import TypeVar

from torch import nn

from leaklab.models.batch_norm import batch_norms

Network = TypeVar("Network", bound=nn.Module)


def with_batch_statistics(network: Network) -> Network:
    """Return a copy, in evaluation state, whose batch normalisations normalise by the batch."""
    copy = deepcopy(network).eval()
    for layer in batch_norms(copy).values():
        layer.track_running_stats, layer.running_mean, layer.running_var = False, None, None
    return copy
