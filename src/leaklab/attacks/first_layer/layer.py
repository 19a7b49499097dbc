"""The update of a first affine layer, as a product of derivatives and inputs.

An affine layer z = W x + c on b samples X (rows) with derivatives D of the loss at z (rows) has the gradients
G = D^T X and g = D^T 1. Whatever factor a client hides, one number per step included, is a factor inside D. So what
is read from (G, g) without knowing D is blind to it, and several steps on other samples only add rows.

Source: "Inverting Gradients", proposition 3.1, for one sample; for batches see the files of this folder.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from leaklab.attacks.base import blank
from leaklab.observations.base import Knowledge, Observation
from leaklab.records import linear_algebra
from leaklab.records.errors import UserError

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

LIVE = 1e-9
"""Rows and columns smaller than this share of the largest one have no part in a product."""

LEAST_BLACK, CLEARLY = 0.05, 1e-2
"""Share of the pixels that are black in all samples at least, and how far below the others' their misfit has to be."""


@dataclass(frozen=True, eq=False)
class FirstLayer:
    """What a server knows of one update of an affine layer; any factor on both updates leaves the readings alone.

    Attributes:
        weight_update: G, [m, n].
        bias_update: g, [m].
        weight: W that was sent, [m, n].
        bias: c that was sent, [m].
        side: height and width of the inputs, whose n = channels * side * side numbers are pixels; 0: they are none.
    """

    weight_update: Floats
    bias_update: Floats
    weight: Floats
    bias: Floats
    side: int = 0

    def factors(self, count: int) -> tuple[Floats, Floats]:
        """Return U [m, b] with orthonormal columns and R [b, n], G = U R, for b = ``count`` samples.

        Raises:
            UserError: the layer has fewer units than there are samples, or the update is zero.
        """
        units, size = self.weight_update.shape
        if count > min(units, size):
            raise UserError(
                f"{count} samples cannot be told apart in a first layer of {units} units and {size} inputs: attack "
                "smaller batches"
            )
        left, sizes, right = linear_algebra.svd(self.weight_update)
        if not sizes[0] > 0:
            raise UserError("the update of the first layer is zero, so nothing can be read off: capture it again")
        return left[:, :count], sizes[:count, None] * right[:count]

    def without_normalisation(self, mean: Floats, deviation: Floats) -> "FirstLayer":
        """Return the same layer on inputs before x' = (x - mean) / deviation, both [n]."""
        weight = self.weight / deviation
        return FirstLayer(
            self.weight_update * deviation + np.outer(self.bias_update, mean),
            self.bias_update,
            weight,
            self.bias - weight @ mean,
            self.side,
        )

    def without_decay(self, shrunk: Floats, shrunk_bias: Floats) -> "FirstLayer":
        """Return the layer without an L2 term, for inputs that are black (0) in all samples at some pixels.

        There the update is a ``shrunk``, with a = decay times the sum of the hidden rates, one number for all entries.
        Which pixels those are is told by the columns: they fit one a, up to rounding, far better than others do.

        Args:
            shrunk: what the term makes of G but for a, [m, n]: W, and after ``without_normalisation``
                deviation W + c mean^T with the weights that the client has.
            shrunk_bias: the same of g, [m]: c.
        """
        sizes = np.maximum((shrunk**2).sum(0), np.finfo(float).tiny)
        ratios = (self.weight_update * shrunk).sum(0) / sizes
        rest = np.linalg.norm(self.weight_update - ratios * shrunk, axis=0)
        black = rest <= 2 * np.quantile(rest, LEAST_BLACK)
        if rest[black].max() > CLEARLY * np.median(rest[~black] if not black.all() else rest):
            return self
        decay = float(np.median(ratios[black]))
        return FirstLayer(
            self.weight_update - decay * shrunk,
            self.bias_update - decay * shrunk_bias,
            self.weight,
            self.bias,
            self.side,
        )


@dataclass(frozen=True, eq=False)
class Reading:
    """What was read of a batch.

    Attributes:
        images: [b, n], in any order; NaN where nothing was found.
        certified: how many of them the weights themselves confirm.
        agreement: share of samples and units where "derivative zero" is "unit off"; 1 over the batch proves a ReLU
            layer's reading without any truth. None where the method does not use it.
    """

    images: Floats
    certified: int = 0
    agreement: float | None = None

    @property
    def proven(self) -> bool:
        """Whether the attacker knows that the whole batch is exact."""
        return self.agreement == 1.0


def scaled(layer: FirstLayer, count: int, directions: Floats) -> Floats:
    """Return the samples [b, n] of directions Q [b, b] (columns, of any length): D^T = U Q diag(s) sums to g."""
    left, right = layer.factors(count)
    lengths = linear_algebra.least_squares_of(directions, left.T @ layer.bias_update)
    mixed = directions * lengths
    found = np.linalg.solve(mixed, right) if np.all(lengths) else linear_algebra.pseudo_inverse(mixed) @ right
    return np.asarray(found, dtype=np.float64)


def agreement(layer: FirstLayer, count: int, directions: Floats, images: Floats, tolerance: float = 1e-5) -> float:
    """Return the share of (sample, unit) where the derivative is zero just where the unit is off."""
    left, _ = layer.factors(count)
    active = images @ layer.weight.T + layer.bias > 0
    derivatives = np.abs(left @ directions).T
    return float(((derivatives > tolerance * derivatives.max(1, keepdims=True)) == active).mean())


def independent(directions: Floats, count: int) -> Places:
    """Return the indices of the first ``count`` rows that are linearly independent, fewer if there are none."""
    chosen: list[int] = []
    basis = np.zeros((0, directions.shape[1]))
    for place, row in enumerate(directions):
        rest = row - basis.T @ (basis @ row)
        size = np.linalg.norm(rest)
        if size > 1e-4:
            chosen.append(place)
            basis = np.vstack([basis, rest / size])
        if len(chosen) == count:
            break
    return np.array(chosen, dtype=np.int64)


# The first affine layer of an observation: its update and its weights, as the readers of this room take them.


def first_layers(observation: Observation, knowledge: Knowledge, needed_by: str) -> list[FirstLayer]:
    """Return the first layer of every trial, on inputs as they were before a normalisation that is known.

    Args:
        observation: T trials.
        knowledge: what the threat model grants.
        needed_by: the attack's name, for messages.

    Raises:
        UserError: facts are withheld, the network does not begin with an affine layer with a bias, or the client keeps
            that to itself.
    """
    network = blank(observation, knowledge, needed_by)
    name, first = next(
        (name, layer) for name, layer in network.named_children() if next(layer.parameters(), None) is not None
    )
    weight, bias = f"{name}.weight", f"{name}.bias"
    if not isinstance(first, nn.Linear) or first.bias is None:
        raise UserError(
            f"attack '{needed_by}' needs a network that begins with an affine layer with a bias: choose another attack"
        )
    if not {weight, bias} <= set(observation.update):
        raise UserError(f"attack '{needed_by}': the client keeps its first layer to itself: choose another defense")
    own, offset = _number(observation.weights[weight]), _number(observation.weights[bias])
    shape = tuple(knowledge.require("input_shape", needed_by))
    side = shape[-1] if len(shape) == 3 and shape[-1] == shape[-2] else 0
    layers = [
        FirstLayer(_number(moved), _number(moved_bias), own, offset, side)
        for moved, moved_bias in zip(observation.update[weight], observation.update[bias], strict=True)
    ]
    shrunk = own
    if knowledge.knows("normalisation"):
        scale = knowledge.require("normalisation", needed_by)
        mean, deviation = (np.repeat(np.array(scale[key]), shape[-1] * shape[-2]) for key in ("mean", "std"))
        layers = [layer.without_normalisation(mean, deviation) for layer in layers]
        shrunk = own * deviation + np.outer(offset, mean)
    if knowledge.knows("weight_decay") and knowledge.require("weight_decay", needed_by):
        layers = [layer.without_decay(shrunk, offset) for layer in layers]
    return layers


def _number(values: Tensor) -> Floats:
    found: Floats = values.detach().cpu().double().numpy()
    return found
