"""Algorithms whose clients send their network or a part of it: averaging in two schemes, no federation, own heads.

Source: LRP paper, section 5.2 and algorithm 1; its eq. (3) lacks a factor N and is not used.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from leaklab.federated.algorithms.base import Algorithm, Phase, Tensors, chosen, layer_names
from leaklab.records.bounds import Natural, Rate
from leaklab.records.errors import UserError
from leaklab.records.streams import Stream
from leaklab.records.traits import AlgorithmTraits


@dataclass(frozen=True)
class FedAvg(Algorithm):
    """The global network is the mean of the clients' networks.

    Attributes:
        scheme: 1 trains on the loss scaled by p_k N (p_k = n_k / sum n), the same as a rate of p_k N times the nominal
            one, and takes the plain mean; 2 uses the nominal rate and weighs by n_k within the round.
    """

    scheme: Literal[1, 2] = 1

    def __post_init__(self) -> None:
        if self.scheme not in (1, 2):
            raise UserError(f"algorithm fedavg: scheme must be 1 or 2, not {self.scheme}")

    def rate_factors(self, sizes: Sequence[int]) -> list[float]:
        """Return p_k N, or 1 under scheme 2."""
        if self.scheme == 2:
            return super().rate_factors(sizes)
        return [size * len(sizes) / sum(sizes) for size in sizes]

    def shares(self, sizes: Sequence[int]) -> list[float]:
        """Return 1 / K (the loss was scaled already), or n_k over their sum under scheme 2."""
        return super().shares(sizes) if self.scheme == 2 else [1 / len(sizes)] * len(sizes)


# No federation: every client trains its own network; what a federation has to beat.


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


# PPSGD: the extractor is shared, every client keeps a classifier of its own, and both move together.


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
    "fedavg": FedAvg,
    "local-only": LocalOnly,
    "ppsgd": Ppsgd,
}
