"""Pictures in an update of more samples than a first layer has units: none is exact, some are near one sample.

Where a training has learnt most of a client's images their derivatives are next to zero, so that a few hard images make
up the update. Then a row of G over its entry of g, or a component of FastICA, is nearly one of them.

Source: the quotient is that of ``ratio``, the components are those of ``unmixing``; here neither is exact.
"""

import numpy as np

from leaklab.attacks.first_layer.layer import LIVE, FirstLayer, Floats, svd
from leaklab.attacks.first_layer.unmixing import Contrast, unmixed
from leaklab.records.streams import Stream

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
    sizes = svd(layer.weight_update)[1]
    left, right = layer.factors(max(1, int((sizes > RANK * sizes[0]).sum())))
    try:
        found = unmixed(right, left.T @ layer.bias_update, layer.side, draws, contrast)
    except (np.linalg.LinAlgError, ValueError):
        found = right[:0]
    return found[np.isfinite(found).all(1)]
