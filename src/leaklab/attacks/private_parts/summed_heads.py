"""What linear heads tell of one client or of a sum of clients, with their biases or without.

The gradient of the heads' weights is sum_k p_k d_k u_k^T over K clients: a matrix of rank K whose rows are mixtures of
the hidden units u_k = relu(W v_k + b). About half of each u_k is zero, at places of the client's own, and a mixture of
several has zeros by chance only. So the u_k are the vectors of the row space with many zeros and one sign; they are
found by sampling K - 1 units that are zero together, and the d_k are then a quotient. What is left open is a factor
per client, s_k = 1 / |u_k|: the gradient of the heads' biases, sum_k p_k d_k, gives it, and so does that of the
hidden layer's bias, sum_k p_k m_k * (A^T d_k). Adding masked messages hides nothing of a few clients, and leaving the
heads' biases out neither.

Source: not in the HyperFL paper; it follows from its section 3.2. Reading rank-K products by sparsity is the idea of
SPEAR (Dimitrov et al. 2024), there for the layers of a ReLU network and one client's batch.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from leaklab.attacks.least_squares import least_squares
from leaklab.attacks.private_parts.hypernetwork import Heads
from leaklab.records.errors import UserError
from leaklab.records.streams import Stream

RANK_TOLERANCE = 1e-9
ZERO_TOLERANCE = 1e-7
SAME = 1e-6
LEAST_MORE_ZEROS = 6
"""Zeros beyond the sampled ones that a mixture would have to have by chance."""
TOGETHER, MOST_ROUNDS = 512, 400


@dataclass(frozen=True, eq=False)
class Terms:
    """The terms of a sum, each up to a factor: sum_k e_k units_k^T.

    Attributes:
        units: u_k / |u_k|, [K, H].
        slopes: e_k = p_k |u_k| d_k, [P, K].
    """

    units: Tensor
    slopes: Tensor


@dataclass(frozen=True, eq=False)
class Read:
    """The extractor of one client: ``weights`` [P], and their gradient ``slope`` [P] up to its share in the sum."""

    weights: Tensor
    slope: Tensor


def leading_term(a: Tensor) -> Terms:
    """Return the term of one client from a noisy gradient of the heads' weights [P, H]: its leading singular pair."""
    _, right = _row_space(a)
    return _quotient(a, _upright(right[:1]))


def terms_of(a: Tensor, draws: Stream) -> Terms:
    """Return the terms of an exact sum, in any order, from the gradient of the heads' weights [P, H].

    Raises:
        UserError: the update is zero, or its terms have too few zeros to be told apart.
    """
    sizes, right = _row_space(a)
    if not sizes[0]:
        raise UserError("the update of the heads is zero, so nothing can be read off: capture it again")
    count = int((sizes > RANK_TOLERANCE * sizes[0]).sum())
    units = _upright(right[:1]) if count == 1 else _sparse(right[:count].T, draws)
    return _quotient(a, units)


def factors_from_heads(terms: Terms, biases: Tensor) -> Tensor:
    """Return s_k = 1 / |u_k| [K] from the gradient of the heads' biases [P], by least squares."""
    return least_squares(terms.slopes, biases[:, None])[:, 0]


def factors_from_hidden_layer(terms: Terms, sent: Heads, biases: Tensor) -> Tensor:
    """Return s_k = 1 / |u_k| [K] from the gradient of the hidden layer's bias [H], by least squares."""
    alive = terms.units.T > ZERO_TOLERANCE
    return least_squares(alive * (sent.a.T @ terms.slopes), biases[:, None])[:, 0]


def read(terms: Terms, sent: Heads, factors: Tensor) -> list[Read]:
    """Return each client's extractor and its gradient, with the factors s_k [K]."""
    return [
        Read(sent.generated(unit / factor), slope * factor)
        for unit, slope, factor in zip(terms.units, terms.slopes.T, factors, strict=True)
    ]


def _row_space(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return singular values and right singular vectors [H, H] of a tall matrix."""
    triangle = torch.linalg.qr(a, mode="r").R
    _, sizes, right = torch.linalg.svd(triangle)
    return sizes, right


def _upright(units: Tensor) -> Tensor:
    """Return unit rows with the sign that hidden units have: none is negative."""
    signs = torch.where(units.sum(1, keepdim=True) < 0, -1.0, 1.0).to(units)
    upright: Tensor = units * signs / units.norm(dim=1, keepdim=True)
    return upright


def _sparse(basis: Tensor, draws: Stream) -> Tensor:
    """Return the K vectors of one sign with many zeros in the span of the columns of ``basis`` [H, K], as rows."""
    count = basis.shape[1]
    lengths = basis.norm(dim=1)
    alive = (lengths > ZERO_TOLERANCE * lengths.max()).nonzero().flatten()
    found: list[Tensor] = []
    for _ in range(MOST_ROUNDS):
        for row in _candidates(basis, alive, draws):
            if all(float(row @ known) < 1 - SAME for known in found):
                found.append(row)
        if len(found) == count:
            return torch.stack(found)
    raise UserError(
        f"{len(found)} of the {count} clients in the sum were told apart: their hidden units have too few zeros, or "
        "the update is not exact"
    )


def _candidates(basis: Tensor, alive: Tensor, draws: Stream) -> Tensor:
    """Return unit vectors [*, H] that vanish on more units than on the sampled ones, and have one sign."""
    count = basis.shape[1]
    chosen = draws.uniform(TOGETHER, len(alive)).argsort(1)[:, : count - 1]
    # the last right singular vector of K - 1 rows of length K is what all of them are orthogonal to; of dependent rows,
    # where two clients have all those zeros, it is one of many
    _, sizes, right = torch.linalg.svd(basis[alive[chosen]])
    sure = sizes[:, -1] > ZERO_TOLERANCE * sizes[:, 0]
    rows = _upright(right[sure, -1] @ basis.T)
    size = rows.abs().amax(1, keepdim=True)
    zeros = (rows[:, alive].abs() <= ZERO_TOLERANCE * size).sum(1)
    fits = (zeros >= count - 1 + LEAST_MORE_ZEROS) & (rows.amin(1) >= -ZERO_TOLERANCE * size[:, 0])
    return rows[fits]


def _quotient(a: Tensor, units: Tensor) -> Terms:
    return Terms(units, a @ torch.linalg.pinv(units))
