"""Gradient matching through a head of thousands of outputs, without forming the gradient of the head's weight.

One sample's gradient for the head's weight is an outer product ``delta u^T`` (derivative at the outputs, features),
and so is the observed one, ``a b^T`` with ``|b| = 1``. With ``u = c b + u'``, ``u'`` orthogonal to ``b``,

    delta u^T = (c delta) b^T + delta u'^T,

so ``(c delta, |delta| u')`` has the same norm, the same product with ``(a, 0)`` and the same distance to it as the
gradient has to the observed one. Every distance of ``matching`` is made of these, takes O + I numbers for O I
of them, and loses nothing near a match, as no two large numbers are subtracted.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.attacks.matching.distances import Distance
from leaklab.attacks.matching.gradients import general_gradients, layered_gradients, trial_gradients
from leaklab.attacks.matching.inversion import Inversion

LARGE_HEAD = 2**20
"""Entries of a head's weight from which on its gradient is not formed; smaller ones are cheap."""

ROUNDING = 1e-12
"""Largest relative distance from an outer product that counts as rounding: float64 only."""


class RankOneHeadInversion(Inversion):
    """``Inversion`` for one sample a trial, whose last two observed tensors are the head's weight and bias.

    Raises:
        ValueError: the observed gradient of the head's weight is no outer product; ask ``inversion_of``.
    """

    def __init__(
        self,
        network: nn.Sequential,
        observed: list[Tensor],
        shape: tuple[int, ...],
        num_classes: int,
        distance: Distance,
        labels: Tensor | None = None,
    ) -> None:
        *below, weight, bias = observed
        factors = outer_factors(weight)
        if factors is None:
            raise ValueError("the gradient of the head's weight is no outer product")
        outputs, self._features = factors
        coordinates = torch.cat([outputs, torch.zeros_like(self._features)], 1)
        super().__init__(network, [*below, coordinates, bias], shape, num_classes, distance, labels)
        self._head = _FixedHead(network[-1])
        self._with_fixed_head = nn.Sequential(*network[:-1], self._head)
        self._gradients = self._short_gradients

    def __call__(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the matching loss [S] at ``points`` [S, n] and its derivative [S, n]."""
        self._direction = self._features[rows]
        return super().__call__(points, rows)

    def _short_gradients(self, _: nn.Sequential, inputs: Tensor, targets: Tensor) -> list[Tensor]:
        below = layered_gradients(self._with_fixed_head, inputs, targets)
        features, target = self._head.features, targets.squeeze(1)
        delta = target.sum(1, keepdim=True) * torch.softmax(self._head.logits, 1) - target
        along = (features * self._direction).sum(1, keepdim=True)
        across = features - along * self._direction
        length = torch.linalg.vector_norm(delta, dim=1, keepdim=True)
        return [*below, torch.cat([along * delta, length * across], 1), delta]


class _FixedHead(nn.Module):
    """The head as a function without weights of its own, which keeps the features [S, I] and logits [S, O] it saw."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self._affine = list(head.parameters())

    def forward(self, features: Tensor) -> Tensor:
        self.features, self.logits = features, F.linear(features, *self._affine)
        return self.logits


def inversion_of(
    network: nn.Sequential,
    observed: list[Tensor],
    shape: tuple[int, ...],
    num_classes: int,
    distance: Distance,
    labels: Tensor | None,
) -> Inversion:
    """Return the fastest exact objective for these observed gradients; arguments as for ``Inversion``."""
    head = network[-1]
    large = isinstance(head, nn.Linear) and head.bias is not None and head.weight.numel() >= LARGE_HEAD
    plain = large and shape[0] == 1 and trial_gradients(network) is not general_gradients
    short = plain and outer_factors(observed[-2]) is not None
    chosen = RankOneHeadInversion if short else Inversion
    return chosen(network, observed, shape, num_classes, distance, labels)


def outer_factors(matrices: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return a [T, O] and b [T, I], |b| = 1, with a b^T = ``matrices`` [T, O, I]; None if one is no outer product."""
    lengths = torch.linalg.vector_norm(matrices, dim=2)
    if not bool((lengths.amax(1) > 0).all()):
        return None
    largest = lengths.argmax(1)
    features = F.normalize(matrices[torch.arange(len(matrices)), largest], dim=1)
    outputs = torch.einsum("toi,ti->to", matrices, features)
    for matrix, output, feature in zip(matrices, outputs, features, strict=True):
        remainder = torch.linalg.vector_norm(matrix - torch.outer(output, feature))
        if float(remainder) > ROUNDING * float(torch.linalg.vector_norm(output)):
            return None
    return outputs, features
