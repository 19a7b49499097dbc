"""Batches of images with much background: rows of the separated product are sparse, whatever the activation is.

With G = A X and a background of 0, the row space of G holds b vectors with many zeros, and they are the images. Sparse
vectors are found by reweighted least squares from where FastICA ended, those of one sign first.

Source: ours; sparse vectors in a subspace by reweighting, "Finding a sparse vector in a subspace" (Qu et al. 2014).
"""

import numpy as np
import torch

from leaklab.attacks.first_layer.layer import LIVE, FirstLayer, Floats, Reading, independent, svd
from leaklab.attacks.first_layer.unmixing import unmixed
from leaklab.records.streams import Stream

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
    basis = svd(right)[2].T
    live = np.linalg.norm(basis, axis=1) > LIVE
    directions = sparse_directions(basis[live], rough @ basis)
    chosen = independent(directions, count)
    if len(chosen) < count:
        return rough
    own = directions[chosen]
    mixing = right @ basis @ np.linalg.inv(own)
    lengths = np.linalg.lstsq(mixing, sums, rcond=None)[0]
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
    vectors: torch.Tensor = torch.linalg.eigh(rows.T @ (weights[:, :, None] * rows)).eigenvectors[:, :, 0]
    return vectors
