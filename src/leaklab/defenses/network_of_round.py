"""The network of a client in its current step, built once a round: building one costs as much as half a step."""

from weakref import WeakKeyDictionary

import torch
from torch import nn

from leaklab.defenses.base import ClientContext
from leaklab.records.streams import Stream

# a client's round is told by a private stream of its own, and ends when that is dropped
_NETWORKS: WeakKeyDictionary[Stream, nn.Sequential] = WeakKeyDictionary()


def network_of_round(context: ClientContext) -> nn.Sequential:
    """Return what ``context.network()`` does: a network with the current weights, in evaluation state.

    It is the same object in all steps of a client's round, so it is good until the next step only. Where more than the
    moving weights decides (running statistics, values behind the weights), it is built anew.

    Raises:
        UserError: no network is at hand.
    """
    of_round = context.stream("network")
    network = _NETWORKS.get(of_round)
    if network is None:
        network = context.network()
        names = {name for name, _ in network.named_parameters()}
        if names == set(context.weights) and not list(network.buffers()):
            _NETWORKS[of_round] = network
    else:
        with torch.no_grad():
            for name, parameter in network.named_parameters():
                parameter.copy_(context.weights[name])
    return network
