"""One sample, by division: every row of G is that row's entry of g times the input.

Source: "Privacy-Preserving Deep Learning via Additively Homomorphic Encryption", section 3 (one unit); under noise all
units count: least squares where g is exact, total least squares (best rank one of [G g]) where it is as noisy as G.
"""

import numpy as np
import torch

from leaklab.attacks.first_layer.layer import LIVE, FirstLayer, Floats, Reading, independent
from leaklab.attacks.first_layer.unmixing import unmixed
from leaklab.records import linear_algebra, tensor_algebra
from leaklab.records.streams import Stream


def read(layer: FirstLayer, count: int, draws: Stream) -> Reading:
    """Return the input of one sample, by total least squares; ``count`` has to be 1 for it to be exact.

    More samples give one mixture of all, in the first place.
    """
    images = np.full((count, layer.weight.shape[1]), np.nan)
    images[0] = total_least_squares(layer)
    return Reading(images)


def one_unit(layer: FirstLayer) -> Floats:
    """Return G_j / g_j of the unit with the largest entry of g, [n]."""
    unit = int(np.argmax(np.abs(layer.bias_update)))
    found: Floats = layer.weight_update[unit] / layer.bias_update[unit]
    return found


def least_squares(layer: FirstLayer) -> Floats:
    """Return the x of the best G = g x^T, [n]."""
    found: Floats = layer.weight_update.T @ layer.bias_update / (layer.bias_update @ layer.bias_update)
    return found


def total_least_squares(layer: FirstLayer) -> Floats:
    """Return the x of the best rank one of [G g], [n]: for equal noise on all entries."""
    right = linear_algebra.svd(np.column_stack([layer.weight_update, layer.bias_update]))[2]
    found: Floats = right[0, :-1] / right[0, -1]
    return found


# One sample from what pruning left: the best product of two vectors on the entries that are not zero.

MOST_ROUNDS, SETTLED = 500, 1e-13


def completed(layer: FirstLayer) -> Floats:
    """Return the input of one sample, [n]; the brightest pixel is 1 where no bias entry is left to tell the scale."""
    seen = np.column_stack([layer.weight_update, layer.bias_update])
    seen = seen / max(float(np.abs(seen).max()), np.finfo(float).tiny)
    kept = seen != 0
    inputs = linear_algebra.svd(seen)[2][0]
    for _ in range(MOST_ROUNDS):
        derivatives = _side(seen, kept, inputs)
        before, inputs = inputs, _side(seen.T, kept.T, derivatives)
        inputs = inputs / max(float(np.linalg.norm(inputs)), np.finfo(float).tiny)
        # the sign of the two factors is free
        if min(np.abs(inputs - before).max(), np.abs(inputs + before).max()) < SETTLED:
            break
    return _in_units(inputs)


def _in_units(inputs: Floats) -> Floats:
    """Return x of a multiple of (x, 1), [n]."""
    image, one = inputs[:-1], inputs[-1]
    brightest = image[np.argmax(np.abs(image))]
    found: Floats = image / (one if one != 0 else brightest if brightest != 0 else 1.0)
    return found


def _side(seen: Floats, kept: Floats, other: Floats) -> Floats:
    """Return the factor of each row [m] that fits its kept entries best; 0 for a row without any."""
    weight = kept @ other**2
    found: Floats = np.divide(seen @ other, weight, out=np.zeros(len(seen)), where=weight > 0)
    return found


# Batches of images with much background: rows of the separated product are sparse, whatever the activation is.

STEPS, WIDEST, NARROWEST = 36, -0.7, -5.0
ZERO, NEARLY_ZERO = 1e-6, 1e-4
MORE_ZEROS = 20
"""Pixels that have to be black beyond those that any mixture can be given."""


def read_black_pixels(layer: FirstLayer, count: int, draws: Stream) -> Reading:
    """Return the batch; it counts as certified where an image has more black pixels than a mixture can have."""
    images = sparse_images(layer, count, draws)
    black = (np.abs(images) < ZERO).sum(1) > count + MORE_ZEROS
    return Reading(images, int((black & (images.min(1) > -ZERO)).sum()))


def sparse_images(layer: FirstLayer, count: int, draws: Stream) -> Floats:
    """Return b images [b, n]: what FastICA finds, moved to the sparsest vectors near it."""
    left, right = layer.factors(count)
    sums = left.T @ layer.bias_update
    rough = unmixed(right, sums, layer.side, draws)
    basis = linear_algebra.svd(right)[2].T
    live = np.linalg.norm(basis, axis=1) > LIVE
    directions = sparse_directions(basis[live], rough @ basis)
    chosen = independent(directions, count)
    if len(chosen) < count:
        return rough
    own = directions[chosen]
    mixing = right @ basis @ np.linalg.inv(own)
    lengths = linear_algebra.least_squares_of(mixing, sums)
    with np.errstate(divide="ignore"):
        found: Floats = own @ basis.T / lengths[:, None]
    return found


def sparse_directions(basis: Floats, starts: Floats) -> Floats:
    """Return unit vectors q [S, b] with sparse ``basis`` q, one from each start, the best first.

    q becomes the smallest eigenvector of M^T diag(1 / (|M q|^2 + e^2)) M while e falls: a descent on
    sum log(|M q|^2 + e^2). Those of one sign come first, as images are not negative.
    """
    rows = torch.from_numpy(np.ascontiguousarray(basis)) * len(basis) ** 0.5
    found = torch.from_numpy(np.ascontiguousarray(starts))
    found = found / found.norm(dim=1, keepdim=True)
    for width in torch.logspace(WIDEST, NARROWEST, STEPS, dtype=rows.dtype):
        weights = width**2 / ((found @ rows.T) ** 2 + width**2)
        found = _smallest(rows, weights)
    for _ in range(2):  # the null vector of what looks zero
        seen = (found @ rows.T).abs()
        weights = (seen < NEARLY_ZERO * seen.amax(1, keepdim=True)).to(rows)
        enough = weights.sum(1) >= rows.shape[1] - 1
        found[enough] = _smallest(rows, weights[enough])
    seen = found @ rows.T
    size = seen.abs() / seen.abs().amax(1, keepdim=True)
    zeros = (size < ZERO).sum(1)
    one_sign = torch.minimum(seen.clamp(min=0).sum(1), -seen.clamp(max=0).sum(1)) < ZERO * seen.abs().sum(1)
    rank = one_sign * 1e9 + zeros * 1e3 - size.sum(1)
    return found[rank.argsort(descending=True)].numpy()


def _smallest(rows: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return the smallest eigenvectors of M^T diag(w) M for each row of weights."""
    vectors: torch.Tensor = tensor_algebra.eigh(rows.T @ (weights[:, :, None] * rows))[1][:, :, 0]
    return vectors
