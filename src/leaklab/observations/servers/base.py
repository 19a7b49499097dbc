"""What a malicious server is: it sends weights of its own making, as often as it likes, and keeps one answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from leaklab.records.bounds import Positive, Real
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


# Imprint: a first layer whose units answer one after the other as one scalar of the image grows.


@dataclass(frozen=True)
class Imprint:
    """Bins of equal probability, as many as the first layer has units.

    Attributes:
        mean: of h(x), the mean over all inputs of a sample, by the law that the server assumes (a normal one).
        std: its standard deviation.
    """

    traits: ClassVar[ServerTraits] = ServerTraits()

    mean: Real
    std: Positive

    def catch(self, victims: Victims) -> Catch:
        """Query the clients once.

        Raises:
            UserError: the model does not begin with two affine layers.
        """
        names = list(victims.parameters[:3])
        shapes = [victims.state[name].shape for name in names]
        if [len(shape) for shape in shapes] != [2, 1, 2] or shapes[2][1] != shapes[0][0]:
            raise UserError("server 'imprint' needs a network that begins with two affine layers: set model: mlp")
        first, bias, second = (victims.state[name] for name in names)
        units, inputs = first.shape
        changed = {
            names[0]: torch.full_like(first, 1 / inputs),
            names[1]: -self.cuts(units).to(bias),
            names[2]: second.mean(1, keepdim=True).expand_as(second).clone(),
        }
        return Catch(changed, victims.ask(changed), victims.samples, 1)

    def cuts(self, units: int) -> Tensor:
        """Return q_1 < ... < q_K, float64: the quantiles k / (K + 1) of the law."""
        levels = torch.arange(1, units + 1, dtype=torch.float64) / (units + 1)
        cuts: Tensor = self.mean + self.std * torch.special.ndtri(levels)
        return cuts

    def wanted(self, features: Tensor, labels: Tensor, victims: Victims) -> Tensor:
        """Return all samples, [T, B]."""
        return torch.arange(labels.shape[1]).expand_as(labels)


PLUGINS = {
    "imprint": Imprint,
}
