"""HyperFL: clients share a hypernetwork; what it makes of their embeddings and their classifiers stay at home.

Source: HyperFL equations 4 to 6 (C.4-C.6) and algorithm 1; sizes, rates and bound are of its public code.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from leaklab.federated.algorithms.base import (
    Algorithm,
    Phase,
    Tensors,
    chosen,
    classifier_names,
    is_statistic,
    layer_names,
)
from leaklab.models.hypernetwork import BIAS, HEADS, Hypernetwork, is_hypernetwork
from leaklab.records.bounds import Count, Flag, Natural, Positive, Rate
from leaklab.records.errors import UserError
from leaklab.records.streams import Stream
from leaklab.records.traits import AlgorithmTraits

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
            numbers up to rounding, in less time (``federated/forms/low_rank.py``).
        biases: the heads have biases; without them they stay 0 and are not sent (``start`` has to be ``weights``).
        shared: ``all`` of the hypernetwork, or its ``hidden-layer`` alone, so that each client has heads of its own.

    Raises:
        UserError: heads without biases that would begin in them.
    """

    traits: ClassVar[AlgorithmTraits] = AlgorithmTraits(networks_kept=0.1, heads="hidden", step_factor=1.4)

    embedding: Count = 64
    hidden: Count = 128
    start: Literal["biases", "weights", "pytorch"] = "biases"
    spread: Positive = 0.1
    classifier_steps: Natural = 12
    classifier_rate: Rate = 0.1
    bound: Positive | None = 50.0
    low_rank: Flag = True
    biases: Flag = True
    shared: Literal["all", "hidden-layer"] = "all"

    def __post_init__(self) -> None:
        if not self.biases and self.start != "weights":
            raise UserError(
                f"algorithm hyperfl: heads without biases cannot begin with start: {self.start}: set start: weights"
            )

    @property
    def generator(self) -> Hypernetwork:
        """The hypernetwork, without weights."""
        return Hypernetwork(self.embedding, self.hidden, self.start, self.spread)

    @property
    def generates_from(self) -> str | None:
        """The embedding, unless the slow form is asked for, or needed: the fast one moves and sends all heads."""
        whole = self.biases and self.shared == "all"
        return EMBEDDING if self.low_rank and whole else None

    def server_start(self, network: Tensors, draws: Stream) -> Tensors:
        """Return the first weights of what is shared of the hypernetwork."""
        return chosen(self._first_weights(network, draws), lambda name: not self._is_kept(name))

    def client_start(self, network: Tensors, draws: Stream) -> Tensors:
        """Return an embedding of the client's own, heads if it keeps them, and the classifier that all begin with."""
        private = classifier_names(network)
        kept = chosen(network, lambda name: name in private or is_statistic(name))
        heads = {} if self.shared == "all" else chosen(self._first_weights(network, draws), self._is_kept)
        return {EMBEDDING: self.generator.first_embedding(draws, next(iter(network.values()))), **heads, **kept}

    def network(self, values: Tensors) -> Tensors:
        """Return the generated extractor and the client's own tensors."""
        own = chosen(values, lambda name: not _is_generating(name))
        return {**self.generator(values, values[EMBEDDING]), **own}

    def phases(self, local_steps: int) -> Sequence[Phase]:
        """Return the classifier's steps, and those of hypernetwork and embedding."""
        return (
            Phase(self.classifier_steps, _is_classifier, self.classifier_rate),
            Phase(local_steps, self._moves, bound=self.bound, groups=_group),
        )

    def upload(self, before: Tensors, after: Tensors) -> Tensors:
        """Return what is shared of the hypernetwork, and nothing else."""
        return chosen(
            after, lambda name: is_hypernetwork(name) and not self._is_kept(name) and not self._is_still(name)
        )

    def _first_weights(self, network: Tensors, draws: Stream) -> Tensors:
        private = classifier_names(network)
        return self.generator.first_weights(
            chosen(network, lambda name: name not in private and not is_statistic(name)), draws
        )

    def _moves(self, name: str) -> bool:
        """Tell whether a value moves in the second phase."""
        return not _is_classifier(name) and not self._is_still(name)

    def _is_kept(self, name: str) -> bool:
        """Tell whether a part of the hypernetwork stays with the client."""
        return self.shared != "all" and name.startswith(HEADS)

    def _is_still(self, name: str) -> bool:
        """Tell whether a value is a bias of heads that have none."""
        return not self.biases and name.startswith(HEADS) and name.endswith(BIAS)


def _is_generating(name: str) -> bool:
    return is_hypernetwork(name) or name == EMBEDDING


def _is_classifier(name: str) -> bool:
    return not _is_generating(name) and not is_statistic(name)


def _group(name: str) -> str:
    return "hypernetwork" if is_hypernetwork(name) else "embedding"


# pFedHN: the server holds a hypernetwork and every client's embedding; clients train what it generates for them.


@dataclass(frozen=True)
class PFedHN(Algorithm):
    """phi <- phi + a sum_i w_i (d theta_i / d phi)^T delta_i and v_i <- v_i + a (d theta_i / d v_i)^T delta_i.

    theta_i = h(v_i; phi) is sent to the client, which returns delta_i, the change of its weights in local training.

    Attributes:
        private_layer: layer that every client keeps for itself, its classifier in pFedHN-PC (``fc2``); empty: none.
        server_rate: a. The clients of a round are taken together, so the printed step of one client becomes their mean.
        embedding: length of v_i.
        hidden: units of the hypernetwork's only hidden layer.
        start: how its heads begin, see ``models/hypernetwork.py``.
        spread: of what the embeddings add at the start, under ``biases``.
    """

    traits: ClassVar[AlgorithmTraits] = AlgorithmTraits(networks_kept=1.0)

    at_server: ClassVar[frozenset[str]] = frozenset({EMBEDDING})

    private_layer: str = ""
    server_rate: Rate = 0.01
    embedding: Count = 64
    hidden: Count = 100
    start: Literal["biases", "weights", "pytorch"] = "biases"
    spread: Positive = 0.1

    @property
    def generator(self) -> Hypernetwork:
        """The hypernetwork, without weights."""
        return Hypernetwork(self.embedding, self.hidden, self.start, self.spread)

    def server_start(self, network: Tensors, draws: Stream) -> Tensors:
        """Return the hypernetwork's first weights.

        Raises:
            UserError: the model has no such layer.
        """
        if self.private_layer:
            layer_names(network, self.private_layer)
        return self.generator.first_weights(chosen(network, self._is_shared), draws)

    def client_start(self, network: Tensors, draws: Stream) -> Tensors:
        """Return the client's embedding, which the server holds, and what the client keeps for itself."""
        own = chosen(network, lambda name: not self._is_shared(name))
        return {EMBEDDING: self.generator.first_embedding(draws, next(iter(network.values()))), **own}

    def receive(self, server: Tensors, client: Tensors) -> Tensors:
        """Return the weights generated for the client, beside its own."""
        own = chosen(client, lambda name: name != EMBEDDING)
        return {**self.generator(server, client[EMBEDDING]), **own}

    def upload(self, before: Tensors, after: Tensors) -> Tensors:
        """Return the change of the generated weights."""
        return {name: after[name] - before[name] for name in after if self._is_shared(name)}

    def keep(self, client: Tensors, after: Tensors) -> Tensors:
        """Return the client's own tensors after training; the embedding waits for the server."""
        return {name: after.get(name, value) for name, value in client.items()}

    def absorb(self, server: Tensors, client: Tensors, message: Tensors) -> tuple[Tensors, Tensors]:
        """Pull the change back through the hypernetwork, to its weights and to the client's embedding."""
        made, pull = torch.func.vjp(self.generator, dict(server), client[EMBEDDING])[:2]
        at_weights, at_embedding = pull({name: message[name] for name in made})
        return at_weights, {**client, EMBEDDING: client[EMBEDDING] + self.server_rate * at_embedding}

    def server_step(self, server: Tensors, mean: Tensors) -> Tensors:
        """Go along the mean of the clients' terms."""
        return {name: value + self.server_rate * mean[name] for name, value in server.items()}

    def _is_shared(self, name: str) -> bool:
        own = bool(self.private_layer) and name.startswith(f"{self.private_layer}.")
        return not own and not is_statistic(name)


PLUGINS = {
    "hyperfl": HyperFL,
    "pfedhn": PFedHN,
}
