"""Heads that an attacker makes up, or reads: the classifier that a client keeps to itself, and linear heads in a sum.

The classifier is drawn, or fitted to the extractor's gradient.

CENTAUR, PPSGD, pFedHN-PC and HyperFL share the extractor alone. IG needs a whole network, and the papers' attacker
draws what is missing. For one sample no draw is needed: the gradient of the extractor's last affine layer z = W x + b
is delta x^T and delta, so that x and z follow, and a classifier is written down whose cross-entropy has the derivative
delta at z. Then the dummy gradient of the true image is the observed one, whatever the client's classifier was.

Source: "the private classifier is not needed" in the identity of HyperFL's heads; x as the quotient of the two
gradients is that of analytic attacks.

Linear heads tell of one client or of a sum of clients, with their biases or without.

The gradient of the heads' weights is sum_k p_k d_k u_k^T over K clients: a matrix of rank K whose rows are mixtures of
the hidden units u_k = relu(W v_k + b). About half of each u_k is zero, at places of the client's own, and a mixture of
several has zeros by chance only. So the u_k are the vectors of the row space with many zeros and one sign; they are
found by sampling K - 1 units that are zero together, and the d_k are then a quotient. What is left open is a factor
per client, s_k = 1 / |u_k|: the gradient of the heads' biases, sum_k p_k d_k, gives it, and so does that of the hidden
layer's bias, sum_k p_k m_k * (A^T d_k). Adding masked messages hides nothing of a few clients, and leaving the heads'
biases out neither.

Source: not in the HyperFL paper; it follows from its section 3.2. Reading rank-K products by sparsity is the idea of
SPEAR (Dimitrov et al. 2024), there for the layers of a ReLU network and one client's batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from leaklab.attacks.base import blank
from leaklab.attacks.least_squares import least_squares
from leaklab.attacks.private_parts.hypernetwork import Heads
from leaklab.models.published import initialise
from leaklab.observations.base import Knowledge, Observation
from leaklab.records import plugins, tensor_algebra
from leaklab.records.errors import UserError
from leaklab.records.streams import Stream, stream

Filling = Literal["drawn", "fitted"]
FILLINGS: tuple[Filling, ...] = ("drawn", "fitted")


def completed(observation: Observation, knowledge: Knowledge, how: Filling, seed: int, needed_by: str) -> Observation:
    """Return the observation of one trial with weights in place of those that the server never had.

    Args:
        observation: one trial with weights of its own; kind gradient.
        knowledge: must grant the network's shapes, and labels for ``fitted``.
        how: ``drawn`` from the law of the model's first weights, or ``fitted`` (one sample).
        seed: of what is drawn.
        needed_by: for messages.

    Raises:
        UserError: facts are withheld, or ``fitted`` on several samples or on a network that it does not fit.
    """
    if how not in FILLINGS:
        raise UserError(f"'{needed_by}' has no classifier '{how}': choose from {', '.join(FILLINGS)}")
    network = blank(observation, knowledge, needed_by).to(observation.like)
    names = [name for name, _ in network.named_parameters()]
    missing = [name for name in names if name not in observation.weights]
    if not missing:
        return observation
    drawn = _drawn(network, observation, seed) if how == "drawn" else {}
    if how == "fitted":
        known = {**network.state_dict(), **observation.weights, **observation.buffers}
        network.load_state_dict(known, strict=True)
        drawn = _fitted(network.eval(), observation, knowledge, missing, needed_by)
    weights = {name: observation.weights[name] if name in observation.weights else drawn[name] for name in names}
    return replace(observation, weights=weights, update={name: observation.update[name] for name in names
                                                         if name in observation.update})  # fmt: skip


def _drawn(network: nn.Sequential, observation: Observation, seed: int) -> Mapping[str, Tensor]:
    """Return first weights as the model draws them, from a stream that no client has."""
    model = plugins.load("models", observation.model["name"], observation.model["settings"])
    initialise(network, stream(seed, "in place of private weights", observation.trials[0]), model.initialisation)
    return {name: value.detach().clone() for name, value in network.named_parameters()}


def _fitted(
    network: nn.Sequential, observation: Observation, knowledge: Knowledge, missing: list[str], needed_by: str
) -> dict[str, Tensor]:
    """Return weight and bias of the last layer whose cross-entropy has the observed derivative before it."""
    samples = int(knowledge.require("batch_size", needed_by))
    if samples != 1:
        raise UserError(f"'{needed_by}': a classifier is fitted to one sample, not to {samples}: set classifier: drawn")
    label = int(knowledge.require("labels", needed_by)[observation.trials[0]][0])
    last, between, head = _ends(network, missing, needed_by)
    weight, bias = (observation.update[f"{last}.{part}"][0] for part in ("weight", "bias"))
    if not bias.any():
        raise UserError(f"'{needed_by}': the update of '{last}' is zero, so nothing can be read off: capture it again")
    layer = network.get_submodule(last)
    z = layer(bias @ weight / bias.square().sum())[None].detach().requires_grad_()
    features = between(z)
    (slope,) = torch.autograd.grad(features.sum(), z)
    if features.shape != z.shape or head.in_features != features.shape[1]:
        raise UserError(f"'{needed_by}' fits a classifier behind an activation only: set classifier: drawn")
    wanted = torch.where(slope[0] != 0, bias / slope[0], torch.zeros_like(bias))
    row, offset = head.weight.detach().clone().zero_(), bias.new_zeros(head.out_features)
    # at the true image all logits are 0: the class's derivative is 1 / K - 1, and its row times that is `wanted`
    row[label] = -wanted * head.out_features / (head.out_features - 1)
    offset[label] = -row[label] @ features[0].detach()
    return dict(zip(missing, (row, offset), strict=True))


def _ends(network: nn.Sequential, missing: list[str], needed_by: str) -> tuple[str, nn.Sequential, nn.Linear]:
    """Return the name of the last shared layer, what stands between it and the private one, and the private one."""
    layers = list(network.named_children())
    trained = [place for place, (_, layer) in enumerate(layers) if next(layer.parameters(), None) is not None]
    name, head = layers[trained[-1]]
    shared, last = layers[trained[-2]] if len(trained) > 1 else ("", None)
    affine = isinstance(head, nn.Linear) and isinstance(last, nn.Linear) and last.bias is not None
    if not affine or missing != [f"{name}.weight", f"{name}.bias"] or trained[-1] != len(layers) - 1:
        raise UserError(
            f"'{needed_by}' fits a classifier where two affine layers with biases end the network and the client keeps "
            "the last alone: set classifier: drawn"
        )
    assert isinstance(head, nn.Linear)
    return shared, network[trained[-2] + 1 : trained[-1]], head


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
    _, sizes, right = tensor_algebra.svd(triangle, full=True)
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
    _, sizes, right = tensor_algebra.svd(basis[alive[chosen]], full=True)
    sure = sizes[:, -1] > ZERO_TOLERANCE * sizes[:, 0]
    rows = _upright(right[sure, -1] @ basis.T)
    size = rows.abs().amax(1, keepdim=True)
    zeros = (rows[:, alive].abs() <= ZERO_TOLERANCE * size).sum(1)
    fits = (zeros >= count - 1 + LEAST_MORE_ZEROS) & (rows.amin(1) >= -ZERO_TOLERANCE * size[:, 0])
    return rows[fits]


def _quotient(a: Tensor, units: Tensor) -> Terms:
    return Terms(units, a @ tensor_algebra.pseudo_inverse(units))
