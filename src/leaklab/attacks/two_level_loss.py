"""The lower level of the attack tailored to HyperFL: an embedding and generated weights that explain the message.

HyperFL, equation (10), takes the hypernetwork for the network under attack: its input is the embedding v, and the
generated weights theta stand where a label would. With the squared error |h(v) - theta|^2 / 2 as its loss, the dummy
gradient is J^T (h(v) - theta), and h(v) - theta is what equation (9) calls minus the change of theta: the gradient at
the extractor. The printed chain rule has no such gradient (see ``hyper_message``).

Searched are v and d = h(v) - theta. That is a change of variables only: with theta itself, each step of v would throw
the match away.
"""

import torch
from torch import Tensor

from leaklab.attacks.hyper_message import Heads


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

    def unpack(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return d [S, P] and v [S, n]."""
        generated = len(self.sent.c)
        return points[:, :generated] * self.unit[rows, None], points[:, generated:]

    def __call__(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss [S] at ``points`` and its derivative [S, P + n], by products written out."""
        slopes, embeddings = self.unpack(points, rows)
        found = [
            _matched(self.sent, self.observed[row], slope, embedding)
            for row, slope, embedding in zip(rows.tolist(), slopes, embeddings, strict=True)
        ]
        values, at_slopes, at_embeddings = (torch.stack(column) for column in zip(*found, strict=True))
        scale = self.scale[rows]
        derivative = torch.cat([at_slopes * self.unit[rows, None], at_embeddings], 1)
        return values / scale, derivative / scale[:, None]


def _matched(sent: Heads, observed: Heads, slope: Tensor, embedding: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return |J^T d - o|^2 and its derivatives at d [P] and v [n]; no tensor of the size of A is made."""
    hidden = sent.hidden(embedding)
    on = hidden > 0
    at_hidden = sent.a.T @ slope
    inner = on * at_hidden
    squares, units, inputs = slope @ slope, hidden @ hidden, embedding @ embedding
    on_slope, on_hidden = observed.a @ hidden, observed.a.T @ slope
    heads = squares * units - 2 * slope @ on_slope + observed.a.square().sum()
    offset, bias = slope - observed.c, inner - observed.b
    weight = inner @ inner * inputs - 2 * inner @ (observed.w @ embedding) + observed.w.square().sum()
    at_inner = inputs * inner - observed.w @ embedding + bias
    at_slope = units * slope - on_slope + offset + sent.a @ (on * at_inner)
    through_units = sent.w.T @ (on * (squares * hidden - on_hidden))
    at_embedding = through_units + (inner @ inner) * embedding - observed.w.T @ inner
    return heads + offset @ offset + weight + bias @ bias, 2 * at_slope, 2 * at_embedding
