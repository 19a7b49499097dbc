"""What a malicious server is: it sends weights of its own making, as often as it likes, and keeps one answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from torch import Tensor

from leaklab.records.errors import UserError
from leaklab.records.traits import ServerTraits

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class Victims:
    """The clients of a capture, as a server sees them that may send what it wants.

    Attributes:
        state: parameters and running statistics that an honest server would send, by name.
        parameters: names of those with a gradient, in the model's order.
        samples: in the batch of each client.
        ask: one query: from the parameters that are changed to the update of every client, [T, ...] by name. Clients
            answer each query on the same samples, and with fresh randomness of their defense.
    """

    state: Tensors
    parameters: Sequence[str]
    samples: int
    ask: Callable[[Tensors], Tensors]


@dataclass(frozen=True, eq=False)
class Catch:
    """What a malicious server goes away with.

    Attributes:
        changed: parameters, by name, at which ``update`` is what ``samples`` samples alone would have sent.
        update: of every client, [T, ...] by name.
        samples: how many samples of each client it speaks of.
        queries: how often the clients were asked.
    """

    changed: Tensors
    update: Tensors
    samples: int
    queries: int


class Server(Protocol):
    """A plug-in; a frozen dataclass whose fields are its settings.

    Attributes:
        traits: what plans want to know of it.
    """

    traits: ClassVar[ServerTraits]

    def catch(self, victims: Victims) -> Catch:
        """Query the clients.

        Raises:
            UserError: the model or the clients do not fit.
        """
        ...

    def wanted(self, features: Tensor, labels: Tensor, victims: Victims) -> Tensor:
        """Return which samples the server is after, for the judge: positions in the batch, [T, samples].

        Args:
            features: of the honest network's last layer, [T, B, F].
            labels: [T, B].
            victims: the clients.

        Raises:
            UserError: a client has no such sample.
        """
        ...


def head_names(victims: Victims, server: str) -> tuple[str, str]:
    """Return the names of weight and bias of the last layer.

    Raises:
        UserError: the model does not end in an affine layer with a bias.
    """
    prefix = victims.parameters[-1].rpartition(".")[0]
    names = f"{prefix}.weight", f"{prefix}.bias"
    if tuple(victims.parameters[-2:]) != names or victims.state[names[0]].dim() != 2:
        raise UserError(f"server '{server}' changes a last affine layer with a bias, which this model has not: choose "
                        "another model")  # fmt: skip
    return names
