"""What a hypernetwork's clients send, as mathematics: generated weights, and gradients through them written out.

A hypernetwork maps an embedding v to hidden units u = relu(W v + b), and each tensor of the extractor is made by a
linear head of its own, theta = A u + c (HyperFL, section 3.2). With d = dL/dtheta the chain rule gives

    dL/dA = d u^T,   dL/dc = d,   dL/db = m * (A^T d),   dL/dW = (m * (A^T d)) v^T,

where m is 1 for the units that are on. HyperFL prints this rule (below equation 9) with the classifier's derivative
and the factor dphi/dvarphi, which is zero: the derivative at theta takes its place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import torch
from torch import Tensor

from leaklab.attacks.base import blank
from leaklab.attacks.matching.steps import mean_gradient
from leaklab.models.hypernetwork import BIAS, HEADS, HIDDEN, WEIGHT, generated_names
from leaklab.observations.base import Knowledge, Observation
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


# The lower level of the attack tailored to HyperFL: an embedding and generated weights that explain the message.


class LowerLevel:
    """|J(v)^T d - o|^2 / |o|^2 of S trials as a function of (d / unit, v) [S, P + n]; an ``Objective``.

    Args:
        sent: the hypernetwork, the same for all trials.
        observed: the gradient o of each trial.
    """

    def __init__(self, sent: Heads, observed: list[Heads]) -> None:
        self.sent, self.observed = sent, observed
        self.scale = torch.stack([one.squared_norm() for one in observed])
        # of the size of a gradient's entry: the search's steps are in units of its unknowns
        self.unit = torch.stack([one.c.square().mean().sqrt() for one in observed])
        # once and not in every step: to square A takes longer than the four products with it
        self.squares = [(one.a.square().sum(), one.w.square().sum()) for one in observed]

    def unpack(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return d [S, P] and v [S, n]."""
        generated = len(self.sent.c)
        return points[:, :generated] * self.unit[rows, None], points[:, generated:]

    def __call__(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss [S] at ``points`` and its derivative [S, P + n], by products written out."""
        slopes, embeddings = self.unpack(points, rows)
        found = [
            _matched(self.sent, self.observed[row], self.squares[row], slope, embedding)
            for row, slope, embedding in zip(rows.tolist(), slopes, embeddings, strict=True)
        ]
        values, at_slopes, at_embeddings = (torch.stack(column) for column in zip(*found, strict=True))
        scale = self.scale[rows]
        derivative = torch.cat([at_slopes * self.unit[rows, None], at_embeddings], 1)
        return values / scale, derivative / scale[:, None]


def _matched(
    sent: Heads, observed: Heads, squared: tuple[Tensor, Tensor], slope: Tensor, embedding: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return |J^T d - o|^2 and its derivatives at d [P] and v [n]; no tensor of the size of A is made.

    Args:
        sent: the hypernetwork.
        observed: the gradient o.
        squared: the sums of the squares of its A and W.
        slope: d.
        embedding: v.
    """
    hidden = sent.hidden(embedding)
    on = hidden > 0
    at_hidden = sent.a.T @ slope
    inner = on * at_hidden
    squares, units, inputs = slope @ slope, hidden @ hidden, embedding @ embedding
    on_slope, on_hidden = observed.a @ hidden, observed.a.T @ slope
    heads = squares * units - 2 * slope @ on_slope + squared[0]
    offset, bias = slope - observed.c, inner - observed.b
    weight = inner @ inner * inputs - 2 * inner @ (observed.w @ embedding) + squared[1]
    at_inner = inputs * inner - observed.w @ embedding + bias
    at_slope = units * slope - on_slope + offset + sent.a @ (on * at_inner)
    through_units = sent.w.T @ (on * (squares * hidden - on_hidden))
    at_embedding = through_units + (inner @ inner) * embedding - observed.w.T @ inner
    return heads + offset @ offset + weight + bias @ bias, 2 * at_slope, 2 * at_embedding


# The message of a hypernetwork's client as it was observed, and what linear heads give away of it.


def extractor(observation: Observation, knowledge: Knowledge, needed_by: str) -> Observation:
    """Return the observation of the generated tensors in place of that of the hypernetwork, for one trial.

    Raises:
        UserError: it is no message of linear heads, facts are withheld, or the update is zero.
    """
    sent, gradient = message_of(observation, knowledge, needed_by)
    if not gradient.c.any():
        raise UserError(f"transform '{needed_by}': the update is zero, so nothing can be read off: capture it again")
    weights = sent.generated(hidden_units(gradient))
    return of_extractor(observation, sent, weights, gradient.c)


def hidden_units(gradient: Heads) -> Tensor:
    """Return u [H] from dL/dA = d u^T and dL/dc = d: the quotient of all rows by least squares."""
    units: Tensor = gradient.c @ gradient.a / gradient.c.square().sum()
    return units


def message_of(observation: Observation, knowledge: Knowledge, needed_by: str) -> tuple[Heads, Heads]:
    """Return the hypernetwork that was sent, and the (mean) gradient that its client sends back, for one trial.

    Raises:
        UserError: it is no such message, or facts are withheld.
    """
    order = [name for name, _ in blank(observation, knowledge, needed_by).named_parameters()]
    sent = Heads.of(observation.weights, order, needed_by)
    update = mean_gradient(observation, knowledge, needed_by).update
    return sent, Heads.of({name: value[0] for name, value in update.items()}, order, needed_by)


def of_extractor(observation: Observation, sent: Heads, weights: Tensor, slope: Tensor) -> Observation:
    """Return the observation with generated weights [P] and their gradient [P] in place of the hypernetwork's."""
    return replace(
        observation,
        weights=sent.apart(weights),
        update={name: value[None] for name, value in sent.apart(slope).items()},
        kind="gradient",
    )
