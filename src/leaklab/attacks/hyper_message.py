"""What a hypernetwork's clients send, as mathematics: generated weights, and gradients through them written out.

A hypernetwork maps an embedding v to hidden units u = relu(W v + b), and each tensor of the extractor is made by a
linear head of its own, theta = A u + c (HyperFL, section 3.2). With d = dL/dtheta the chain rule gives

    dL/dA = d u^T,   dL/dc = d,   dL/db = m * (A^T d),   dL/dW = (m * (A^T d)) v^T,

where m is 1 for the units that are on. HyperFL prints this rule (below equation 9) with the classifier's derivative
and the factor dphi/dvarphi, which is zero: the derivative at theta takes its place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from leaklab.models.hypernetwork import BIAS, HEADS, HIDDEN, WEIGHT, generated_names
from leaklab.records.errors import UserError

LAYER = (HIDDEN + WEIGHT, HIDDEN + BIAS)


@dataclass(frozen=True, eq=False)
class Heads:
    """Weights of a hypernetwork, or a direction among them; P generated weights, H hidden units, n of an embedding.

    Attributes:
        shapes: of the generated tensors by name, in the order in which they stand in ``a`` and ``c``.
        a: factors of the heads, [P, H].
        c: their offsets, [P].
        w: weight of the hidden layer, [H, n].
        b: its bias, [H].
    """

    shapes: Mapping[str, tuple[int, ...]]
    a: Tensor
    c: Tensor
    w: Tensor
    b: Tensor

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], order: Sequence[str], needed_by: str) -> "Heads":
        """Read the message of a hypernetwork (names as in ``models/hypernetwork.py``).

        Args:
            tensors: by name, without a leading axis.
            order: names of the network's parameters; those that are generated are taken in this order.
            needed_by: for messages.

        Raises:
            UserError: it is no such message, or it makes tensors that the network does not have.
        """
        named = [name for name in order if name in generated_names(tensors)]
        wanted = {*LAYER, *(HEADS + name + part for name in named for part in (WEIGHT, BIAS))}
        if not named or wanted != set(tensors):
            odd = [*sorted(wanted ^ set(tensors)), HEADS]
            raise UserError(
                f"'{needed_by}' reads the message of a hypernetwork with linear heads, which this is not ('{odd[0]}' "
                "is missing or not one of its tensors): attack a capture of algorithm hyperfl"
            )
        return cls(
            {name: tuple(tensors[HEADS + name + BIAS].shape) for name in named},
            torch.cat([tensors[HEADS + name + WEIGHT].flatten(0, -2) for name in named]),
            torch.cat([tensors[HEADS + name + BIAS].flatten() for name in named]),
            *(tensors[name] for name in LAYER),
        )

    def tensors(self) -> dict[str, Tensor]:
        """Return them by name, as a client sends them."""
        factors = torch.split(self.a, [prod(shape) for shape in self.shapes.values()])
        heads = {
            HEADS + name + WEIGHT: part.view(*shape, -1)
            for part, (name, shape) in zip(factors, self.shapes.items(), strict=True)
        }
        offsets = {HEADS + name + BIAS: part for name, part in self.apart(self.c).items()}
        return {**dict(zip(LAYER, (self.w, self.b), strict=True)), **heads, **offsets}

    def apart(self, flat: Tensor) -> dict[str, Tensor]:
        """Return generated weights [P] as tensors by name."""
        parts = torch.split(flat, [prod(shape) for shape in self.shapes.values()])
        return {name: part.view(shape) for part, (name, shape) in zip(parts, self.shapes.items(), strict=True)}

    def hidden(self, embedding: Tensor) -> Tensor:
        """Return the hidden units [..., H] of embeddings [..., n]."""
        return torch.relu(embedding @ self.w.T + self.b)

    def generated(self, hidden: Tensor) -> Tensor:
        """Return the generated weights [..., P] of hidden units [..., H]."""
        return hidden @ self.a.T + self.c

    def through(self, embedding: Tensor, direction: "Heads") -> Tensor:
        """Return how the generated weights of ``embedding`` [n] change along ``direction``, to first order: [P]."""
        hidden = self.hidden(embedding)
        inner = (hidden > 0) * (direction.w @ embedding + direction.b)
        return direction.a @ hidden + direction.c + self.a @ inner

    def gradient(self, embedding: Tensor, slope: Tensor) -> "Heads":
        """Return the gradient of a loss whose derivative at the weights of ``embedding`` [n] is ``slope`` [P]."""
        hidden = self.hidden(embedding)
        inner = (hidden > 0) * (self.a.T @ slope)
        return Heads(self.shapes, slope[:, None] * hidden, slope, inner[:, None] * embedding, inner)

    def squared_norm(self) -> Tensor:
        """Return the sum of all squares."""
        return self.a.square().sum() + self.c.square().sum() + self.w.square().sum() + self.b.square().sum()
