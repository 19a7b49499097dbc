"""HyperFL: clients share a hypernetwork; what it makes of their embeddings and their classifiers stay at home.

Source: HyperFL equations 4 to 6 (C.4-C.6) and algorithm 1; sizes, rates and bound are of its public code.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from leaklab.federated.algorithms.base import Algorithm, Phase, Tensors, chosen
from leaklab.federated.algorithms.parts import classifier_names, is_statistic
from leaklab.models.hypernetwork import Hypernetwork, is_hypernetwork
from leaklab.records.bounds import Count, Flag, Natural, Positive, Rate
from leaklab.records.streams import Stream

EMBEDDING = "embedding"


@dataclass(frozen=True)
class HyperFL(Algorithm):
    """The extractor is generated from the client's embedding v_i by the shared hypernetwork; phi_i classifies.

    A round has two phases: the classifier moves, then hypernetwork and embedding with the new classifier. Running
    statistics, where a network has them, move with the second phase and stay with the client.

    Attributes:
        embedding: length of v_i.
        hidden: units of the hypernetwork's only hidden layer.
        start: how its heads begin, see ``models/hypernetwork.py``.
        spread: of what the embeddings add at the start, under ``biases``.
        classifier_steps: steps of the first phase; one epoch of 600 samples in batches of 50.
        classifier_rate: its rate.
        bound: largest gradient norm in the second phase, of hypernetwork and embedding apart; None: there is none.
        low_rank: do the second phase without forming any client's heads where the optimizer allows it: the same
            numbers up to rounding, in less time (``federated/low_rank.py``).
    """

    embedding: Count = 64
    hidden: Count = 128
    start: Literal["biases", "weights", "pytorch"] = "biases"
    spread: Positive = 0.1
    classifier_steps: Natural = 12
    classifier_rate: Rate = 0.1
    bound: Positive | None = 50.0
    low_rank: Flag = True

    @property
    def generator(self) -> Hypernetwork:
        """The hypernetwork, without weights."""
        return Hypernetwork(self.embedding, self.hidden, self.start, self.spread)

    @property
    def generates_from(self) -> str | None:
        """The embedding, unless the slow form is asked for."""
        return EMBEDDING if self.low_rank else None

    def server_start(self, network: Tensors, draws: Stream) -> Tensors:
        """Return the hypernetwork's first weights."""
        private = classifier_names(network)
        return self.generator.first_weights(
            chosen(network, lambda name: name not in private and not is_statistic(name)), draws
        )

    def client_start(self, network: Tensors, draws: Stream) -> Tensors:
        """Return an embedding of the client's own, and the classifier with which all clients begin."""
        private = classifier_names(network)
        kept = chosen(network, lambda name: name in private or is_statistic(name))
        return {EMBEDDING: self.generator.first_embedding(draws, next(iter(network.values()))), **kept}

    def network(self, values: Tensors) -> Tensors:
        """Return the generated extractor and the client's own tensors."""
        own = chosen(values, lambda name: not _is_generating(name))
        return {**self.generator(values, values[EMBEDDING]), **own}

    def phases(self, local_steps: int) -> Sequence[Phase]:
        """Return the classifier's steps, and those of hypernetwork and embedding."""
        return (
            Phase(self.classifier_steps, _is_classifier, self.classifier_rate),
            Phase(local_steps, lambda name: not _is_classifier(name), bound=self.bound, groups=_group),
        )

    def upload(self, before: Tensors, after: Tensors) -> Tensors:
        """Return the hypernetwork, and nothing else."""
        return chosen(after, is_hypernetwork)


def _is_generating(name: str) -> bool:
    return is_hypernetwork(name) or name == EMBEDDING


def _is_classifier(name: str) -> bool:
    return not _is_generating(name) and not is_statistic(name)


def _group(name: str) -> str:
    return "hypernetwork" if is_hypernetwork(name) else "embedding"


PLUGIN = HyperFL
