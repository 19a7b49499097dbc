"""No federation: every client trains its own network; what a federation has to beat."""

from dataclasses import dataclass
from typing import ClassVar

from leaklab.federated.algorithms.base import Algorithm, Tensors
from leaklab.records.streams import Stream
from leaklab.records.traits import AlgorithmTraits


@dataclass(frozen=True)
class LocalOnly(Algorithm):
    """The whole network is the client's; the server holds nothing, and nothing is sent. All start from one network."""

    traits: ClassVar[AlgorithmTraits] = AlgorithmTraits(networks_kept=1.0)

    refuses: ClassVar[frozenset[str]] = frozenset({"local_rate", "gradient", "update"})

    def server_start(self, network: Tensors, draws: Stream) -> Tensors:
        """Return nothing."""
        return {}

    def client_start(self, network: Tensors, draws: Stream) -> Tensors:
        """Return the model's initial network, the same for all clients of a seed."""
        return network

    def upload(self, before: Tensors, after: Tensors) -> Tensors:
        """Return nothing."""
        return {}


PLUGIN = LocalOnly
