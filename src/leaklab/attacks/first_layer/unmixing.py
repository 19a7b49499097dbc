"""Batches by independence: the rows of G are mixtures of images, which FastICA separates.

On differences of neighbouring pixels, a linear filter that leaves the mixing as it is and makes images nearly
independent; on pixels themselves, the textbook form, much worse. Length, sign and mean, which ICA leaves open, follow
from g. It is an approximation (20 to 45 dB), and where ``peel`` begins.

Source: "Cocktail Party Attack" (Kariyappa et al. 2023); differences in place of pixels are ours.
"""

import warnings
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from leaklab.attacks.first_layer.layer import LIVE, FirstLayer, Floats, Reading
from leaklab.records import linear_algebra
from leaklab.records.streams import Stream

Contrast = Literal["logcosh", "cube", "exp"]
CONTRASTS: tuple[Contrast, ...] = ("logcosh", "cube", "exp")
MOST_ITERATIONS, TOLERANCE = 500, 1e-5


def read(layer: FirstLayer, count: int, draws: Stream) -> Reading:
    """Return the batch as FastICA leaves it."""
    left, right = layer.factors(count)
    return Reading(unmixed(right, left.T @ layer.bias_update, layer.side, draws))


def unmixed(
    mixtures: Floats,
    sums: Floats,
    side: int,
    draws: Stream,
    contrast: Contrast = "logcosh",
    edges: bool = True,
    known: NDArray[np.bool_] | None = None,
) -> Floats:
    """Return b images [b, n] from b mixtures of them.

    Args:
        mixtures: [b, n].
        sums: what the same mixtures make of an input that is 1 everywhere, [b]; it tells lengths and signs.
        side: of square images; 0 takes the numbers as they are.
        draws: the start of the search.
        contrast: of FastICA.
        edges: unmix differences of neighbouring pixels.
        known: pixels to unmix by, [n]; None for all.
    """
    from sklearn.decomposition import FastICA  # slow to import

    count = len(mixtures)
    seed = int(draws.integers(0, 2**31 - 1, 1)[0])
    search = FastICA(count, whiten="unit-variance", fun=contrast, max_iter=MOST_ITERATIONS, tol=TOLERANCE,
                     random_state=seed)  # fmt: skip
    usable = mixtures if known is None else np.where(known, mixtures, np.nan)
    seen = differences(usable, side) if edges and side else usable
    seen = seen if known is None else seen[:, np.isfinite(seen).all(0)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some starts do not converge; the caller tries others
        search.fit(seen.T)
    mixing = search.mixing_
    lengths = linear_algebra.least_squares_of(mixing, sums)
    found: Floats = linear_algebra.least_squares_of(mixing * lengths, mixtures)
    return found


def differences(rows: Floats, side: int) -> Floats:
    """Return the differences of neighbouring pixels in both directions, of each row of images [*, C side side]."""
    images = rows.reshape(len(rows), -1, side, side)
    return np.concatenate([np.diff(images, axis=axis).reshape(len(rows), -1) for axis in (2, 3)], 1)


# Pictures in an update of more samples than a first layer has units: none is exact, some are near one sample.

RANK = 1e-6
"""Share of the largest singular value of G from which one counts."""
PEAKED: tuple[Contrast, ...] = ("logcosh", "exp")
"""Contrasts that find a component of few large values, as differences of pixels are; the cube finds none there."""


def pictures(layer: FirstLayer, draws: Stream) -> Floats:
    """Return all that looks like an image, [k, n] with at least one row: at most three for each unit.

    Args:
        layer: of any number of samples.
        draws: the start of FastICA.
    """
    return np.vstack([quotients(layer), *(_components(layer, draws, contrast) for contrast in PEAKED)])


def quotients(layer: FirstLayer) -> Floats:
    """Return G_j / g_j of the units that some sample moves, [k, n]: means of the samples, by their derivatives."""
    moved = np.abs(layer.bias_update)
    live = moved > LIVE * moved.max(initial=np.finfo(float).tiny)
    found: Floats = layer.weight_update[live] / layer.bias_update[live, None]
    return found


def _components(layer: FirstLayer, draws: Stream, contrast: Contrast) -> Floats:
    """Return the components of the rows of G, as many as its rank, [r, n]; none where FastICA finds no way."""
    sizes = linear_algebra.svd(layer.weight_update)[1]
    left, right = layer.factors(max(1, int((sizes > RANK * sizes[0]).sum())))
    try:
        found = unmixed(right, left.T @ layer.bias_update, layer.side, draws, contrast)
    except (np.linalg.LinAlgError, ValueError):
        found = right[:0]
    return found[np.isfinite(found).all(1)]
