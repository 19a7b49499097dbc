"""PPSGD: the extractor is shared, every client keeps a classifier of its own, and both move together.

Source: "Personalization Improves Privacy-Accuracy Tradeoffs in Federated Learning", as HyperFL's table 1 compares with
it. Its noise is defense ``dp-sgd``, which sees the extractor only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from leaklab.federated.algorithms.base import Algorithm, Phase, Tensors, chosen, layer_names
from leaklab.records.bounds import Natural, Rate
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


# CENTAUR: first the client's own classifier moves, then the shared extractor under the new classifier.


@dataclass(frozen=True)
class Centaur(Ppsgd):
    """As PPSGD, in two phases; the first one sends nothing and gets no noise.

    Attributes:
        classifier_steps: steps of the first phase; one epoch of 600 samples in batches of 50.
        classifier_rate: its rate.
    """

    classifier_steps: Natural = 12
    classifier_rate: Rate = 0.1

    def phases(self, local_steps: int) -> Sequence[Phase]:
        """Return the classifier's steps and the extractor's."""
        return Phase(self.classifier_steps, self._is_private, self.classifier_rate), Phase(local_steps, self._is_shared)


PLUGINS = {
    "centaur": Centaur,
    "ppsgd": Ppsgd,
}
