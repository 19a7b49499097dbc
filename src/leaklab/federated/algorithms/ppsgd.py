"""PPSGD: the extractor is shared, every client keeps a classifier of its own, and both move together.

Source: "Personalization Improves Privacy-Accuracy Tradeoffs in Federated Learning", as HyperFL's table 1 compares with
it. Its noise is defense ``dp-sgd``, which sees the extractor only.
"""

from dataclasses import dataclass
from typing import ClassVar

from leaklab.federated.algorithms.base import Algorithm, Tensors, chosen
from leaklab.federated.algorithms.parts import layer_names
from leaklab.records.streams import Stream
from leaklab.records.traits import AlgorithmTraits


@dataclass(frozen=True)
class Ppsgd(Algorithm):
    """The mean of the clients' extractors; all classifiers start alike and stay at home.

    Attributes:
        private_layer: the classifier, by its name in the model.
    """

    traits: ClassVar[AlgorithmTraits] = AlgorithmTraits(networks_kept=0.02)

    private_layer: str = "fc2"

    def server_start(self, network: Tensors, draws: Stream) -> Tensors:
        """Return the extractor.

        Raises:
            UserError: the model has no such layer.
        """
        private = layer_names(network, self.private_layer)
        return chosen(network, lambda name: name not in private)

    def client_start(self, network: Tensors, draws: Stream) -> Tensors:
        """Return the classifier."""
        return chosen(network, self._is_private)

    def upload(self, before: Tensors, after: Tensors) -> Tensors:
        """Return the extractor, and nothing else."""
        return chosen(after, self._is_shared)

    def _is_private(self, name: str) -> bool:
        return name.startswith(f"{self.private_layer}.")

    def _is_shared(self, name: str) -> bool:
        return not self._is_private(name)


PLUGIN = Ppsgd
