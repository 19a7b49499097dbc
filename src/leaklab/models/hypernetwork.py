"""The hypernetwork that generates a network's tensors from an embedding (HyperFL section 4.1, equation C.3)."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Literal

import torch
from torch import Tensor

from leaklab.records.errors import UserError
from leaklab.records.streams import Stream

PREFIX = "hypernetwork."
HIDDEN, HEADS = f"{PREFIX}hidden", f"{PREFIX}heads."
WEIGHT, BIAS = ".weight", ".bias"
LEAST_COPIES = 3
"""Of a hypernetwork while a round goes on: the server's, a client's and the running mean."""

Start = Literal["biases", "weights", "pytorch"]


@dataclass(frozen=True)
class Hypernetwork:
    """theta = h(v): u = relu(W v + b), and for each generated tensor d a linear head A_d u + c_d.

    Its weights are tensors by name: ``hypernetwork.hidden.weight`` W, ``hypernetwork.hidden.bias`` b, and for tensor
    ``conv1.weight`` the head ``hypernetwork.heads.conv1.weight.weight`` A_d, of the tensor's shape and one axis of u
    more, and ``hypernetwork.heads.conv1.weight.bias`` c_d, of the tensor's shape.

    The paper does not say how the heads start (register Q-C13). With ``biases``, the default, every client begins with
    the network's usual first weights, which stand in the heads' biases; what the embeddings add has ``spread`` times
    the standard deviation of the tensor. With ``weights`` the biases are 0 and the heads' weights carry all of it.
    ``pytorch`` leaves all layers as torch starts affine layers, so that generated weights have another size than usual.

    Attributes:
        embedding: length of v.
        hidden: length of u.
        start: how the heads begin.
        spread: of the part that depends on the embedding, under ``biases``.
    """

    embedding: int = 64
    hidden: int = 128
    start: Start = "biases"
    spread: float = 0.1

    def first_weights(self, network: Mapping[str, Tensor], draws: Stream) -> dict[str, Tensor]:
        """Return the hypernetwork's weights before training, in the network's dtype.

        Args:
            network: the tensors to generate, with their usual first values.
            draws: W and the heads' weights.

        Raises:
            UserError: nothing to generate, or more than this machine's memory holds.
        """
        self._refuse_too_large(network)
        weights = {
            HIDDEN + WEIGHT: self._drawn(draws, self.hidden, self.embedding, fan_in=self.embedding),
            HIDDEN + BIAS: self._small(draws, self.hidden, fan_in=self.embedding),
        }
        for name, value in network.items():
            head = self._drawn(draws, *value.shape, self.hidden, fan_in=self.hidden)
            # half of the entries of u are 0, so that u has length sqrt(hidden / 2) in the mean
            spread = sqrt(2) * float(value.double().std(correction=0))
            match self.start:
                case "biases":
                    weights[HEADS + name + WEIGHT] = self.spread * spread * head
                    weights[HEADS + name + BIAS] = value.double()
                case "weights":
                    weights[HEADS + name + WEIGHT] = spread * head
                    weights[HEADS + name + BIAS] = torch.zeros_like(value, dtype=torch.float64)
                case "pytorch":
                    weights[HEADS + name + WEIGHT] = head
                    weights[HEADS + name + BIAS] = self._small(draws, *value.shape, fan_in=self.hidden)
        like = next(iter(network.values()))
        return {name: value.to(like) for name, value in weights.items()}

    def first_embedding(self, draws: Stream, like: Tensor) -> Tensor:
        """Return a client's first embedding v ~ N(0, 1), [embedding]."""
        return draws.normal(self.embedding).to(like)

    def __call__(self, weights: Mapping[str, Tensor], embedding: Tensor) -> dict[str, Tensor]:
        """Return the generated tensors, by rising name.

        Args:
            weights: by name; others than the hypernetwork's are not looked at.
            embedding: v, [embedding].

        Raises:
            UserError: the embedding has another length.
        """
        u = hidden_units(weights[HIDDEN + WEIGHT], weights[HIDDEN + BIAS], embedding)
        return {name: _head(weights, name, u) for name in generated_names(weights)}

    def _drawn(self, draws: Stream, *shape: int, fan_in: int) -> Tensor:
        """Return weights from N(0, 1 / fan_in), or from torch's uniform law."""
        if self.start == "pytorch":
            return self._small(draws, *shape, fan_in=fan_in)
        return draws.normal(*shape) / sqrt(fan_in)

    def _small(self, draws: Stream, *shape: int, fan_in: int) -> Tensor:
        """Return biases: 0, or from torch's uniform law."""
        if self.start == "pytorch":
            return (2 * draws.uniform(*shape) - 1) / sqrt(fan_in)
        return torch.zeros(shape, dtype=torch.float64)

    def _refuse_too_large(self, network: Mapping[str, Tensor]) -> None:
        if not network:
            raise UserError("a hypernetwork needs tensors to generate: the network has its classifier only")
        count = sum(value.numel() for value in network.values()) * (self.hidden + 1)
        size = count * next(iter(network.values())).element_size()
        if LEAST_COPIES * size > (there := memory_bytes()):
            raise UserError(
                f"a hypernetwork with {self.hidden} hidden units for this model has {count:,} weights: {LEAST_COPIES} "
                f"copies take {LEAST_COPIES * size / 2**30:.1f} GiB, and this machine has {there / 2**30:.1f} GiB: "
                "choose a smaller model or fewer hidden units"
            )


def hidden_units(weight: Tensor, bias: Tensor, embedding: Tensor) -> Tensor:
    """Return u = relu(W v + b).

    Args:
        weight: W, [hidden, embedding].
        bias: b, [hidden].
        embedding: v, [embedding].

    Raises:
        UserError: the embedding has another length than W has columns.
    """
    if embedding.shape[-1] != weight.shape[-1]:
        raise UserError(
            f"the embedding has {embedding.shape[-1]} numbers, but the hypernetwork takes {weight.shape[-1]}: use an "
            "embedding of a client of the same training"
        )
    return torch.relu(weight @ embedding + bias)


def generated_names(weights: Mapping[str, Tensor]) -> list[str]:
    """Return the names of the tensors that a hypernetwork with these weights generates, ascending."""
    heads = [name.removeprefix(HEADS).removesuffix(WEIGHT) for name in weights if name.startswith(HEADS)]
    return sorted(name for name in heads if HEADS + name + BIAS in weights and HEADS + name + WEIGHT in weights)


def is_hypernetwork(name: str) -> bool:
    """Tell whether a value belongs to a hypernetwork."""
    return name.startswith(PREFIX)


def memory_bytes() -> int:
    """Return the memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _head(weights: Mapping[str, Tensor], name: str, u: Tensor) -> Tensor:
    weight, bias = weights[HEADS + name + WEIGHT], weights[HEADS + name + BIAS]
    # one product of a matrix and a vector, whatever the tensor's axes
    return (weight.flatten(0, -2) @ u).view(bias.shape) + bias
