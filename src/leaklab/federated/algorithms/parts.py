"""Which tensors of a network make its classifier, and which only count batches: what personal algorithms tell apart."""

from leaklab.federated.algorithms.base import Tensors
from leaklab.records.errors import UserError

STATISTICS = ("running_mean", "running_var")


def is_statistic(name: str) -> bool:
    """Tell whether a tensor is a running statistic of a batch normalisation."""
    return name.rpartition(".")[2] in STATISTICS


def classifier_names(network: Tensors) -> frozenset[str]:
    """Return the names of the last layer's tensors; ``network`` is in the model's own order, as at the start."""
    return layer_names(network, list(network)[-1].rpartition(".")[0])


def layer_names(network: Tensors, layer: str) -> frozenset[str]:
    """Return the names of a layer's tensors.

    Raises:
        UserError: there is no such layer.
    """
    found = frozenset(name for name in network if name.startswith(f"{layer}."))
    if not found:
        layers = dict.fromkeys(name.partition(".")[0] for name in network)
        raise UserError(f"the model has no layer '{layer}': choose from {', '.join(layers)}")
    return found
