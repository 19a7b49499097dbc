"""What a federated algorithm is: pure functions of one client and one server, which the engine lifts over all."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from leaklab.records.errors import UserError
from leaklab.records.streams import Stream

Tensors = Mapping[str, Tensor]


def _all(name: str) -> bool:
    return True


def _one_group(name: str) -> str:
    return ""


@dataclass(frozen=True)
class Phase:
    """A stretch of a client's round: some of its values move, the others stand still.

    Attributes:
        steps: optimizer steps, one batch each. The optimizer's state is new in every phase.
        moves: which values move, by name (running statistics too).
        rate: nominal rate in this phase; None: the spec's. Schedule, client factor and defense apply to either.
        bound: largest norm of a gradient, above which it is scaled down to it; None: there is none.
        groups: name -> group; each group of values has a norm of its own.
    """

    steps: int
    moves: Callable[[str], bool] = _all
    rate: float | None = None
    bound: float | None = None
    groups: Callable[[str], str] = _one_group


@dataclass(frozen=True)
class Algorithm:
    """Base of all algorithms: one global network, averaged by samples. A subclass overrides what differs.

    The hooks see the tensors of one server or one client, without leading axes, and never work in place. There are
    three kinds of state:

    * ``server``: what the server holds, one a replicate;
    * ``client``: what a client keeps from round to round, whether it takes part or not, one a replicate and client;
    * ``values``: what a client works on during a round; gone after it.

    A client's round is ``receive``, the phases, ``upload`` and ``keep``. Then the server does ``absorb`` for each
    client and ``server_step`` once. Hooks that a class leaves alone are skipped. Fields of the dataclass are settings.

    A defense changes what leaves the client: its ``gradient`` sees the moving values that the client does not keep, its
    ``update`` the message minus the received values of the same names.

    Attributes:
        at_server: names in ``client`` that the server holds for the client: they are not private.
        refuses: hooks of defenses that make no sense here; a defense that overrides one is refused.
        generates_from: name of the embedding from which a hypernetwork (``models/hypernetwork.py``) generates the
            network, whose other tensors ``network`` passes as they are; its training then has a fast form.
    """

    at_server: ClassVar[frozenset[str]] = frozenset()
    refuses: ClassVar[frozenset[str]] = frozenset()

    @property
    def generates_from(self) -> str | None:
        """Nothing is generated."""
        return None

    def server_start(self, network: Tensors, draws: Stream) -> Tensors:
        """Return what the server holds before the first round; ``network`` has the model's initial state."""
        return network

    def client_start(self, network: Tensors, draws: Stream) -> Tensors:
        """Return what a client keeps before its first round."""
        return {}

    def receive(self, server: Tensors, client: Tensors) -> Tensors:
        """Return the values with which a client begins: what the server sends, beside what the client has."""
        return {**server, **client}

    def network(self, values: Tensors) -> Tensors:
        """Return the network's weights and running statistics that the values stand for; differentiable."""
        return values

    def phases(self, local_steps: int) -> Sequence[Phase]:
        """Return the stretches of local training; ``local_steps`` are the spec's."""
        return (Phase(local_steps),)

    def upload(self, before: Tensors, after: Tensors) -> Tensors:
        """Return the message to the server: all that a capture of this client may show."""
        return after

    def keep(self, client: Tensors, after: Tensors) -> Tensors:
        """Return what the client keeps for its next round; the names are those of ``client``."""
        return {name: after[name] for name in client}

    def absorb(self, server: Tensors, client: Tensors, message: Tensors) -> tuple[Tensors, Tensors]:
        """Return the client's term of the server's mean, and the client's state where the server holds it."""
        return message, client

    def server_step(self, server: Tensors, mean: Tensors) -> Tensors:
        """Return the server's next state from the weighed mean of the terms."""
        return {**server, **mean}

    def rate_factors(self, sizes: Sequence[int]) -> list[float]:
        """Return the factor of every client's rate, from the samples n_k of all N clients."""
        return [1.0] * len(sizes)

    def shares(self, sizes: Sequence[int]) -> list[float]:
        """Return the weights, with sum 1, of the round's clients in the mean, from the samples n_k of these K."""
        return [size / sum(sizes) for size in sizes]


def overrides(algorithm: Algorithm, *hooks: str) -> bool:
    """Whether the algorithm changes one of the hooks; neutral ones are skipped, not lifted."""
    return any(getattr(type(algorithm), hook) is not getattr(Algorithm, hook) for hook in hooks)


def chosen(tensors: Tensors, wanted: Callable[[str], bool]) -> dict[str, Tensor]:
    """Return the tensors whose names are wanted."""
    return {name: value for name, value in tensors.items() if wanted(name)}


# Which tensors of a network make its classifier, and which only count batches: what personal algorithms tell apart.

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
