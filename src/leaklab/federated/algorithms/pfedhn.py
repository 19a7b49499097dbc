"""pFedHN: the server holds a hypernetwork and every client's embedding; clients train what it generates for them.

Source: "Personalized Federated Learning using Hypernetworks" as HyperFL compares with it (register Q-C10).
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from leaklab.federated.algorithms.base import Algorithm, Tensors, chosen, is_statistic, layer_names
from leaklab.models.hypernetwork import Hypernetwork
from leaklab.records.bounds import Count, Positive, Rate
from leaklab.records.streams import Stream
from leaklab.records.traits import AlgorithmTraits

EMBEDDING = "embedding"


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


PLUGIN = PFedHN
