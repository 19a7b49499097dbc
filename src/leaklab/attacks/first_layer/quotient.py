"""One sample, by division: every row of G is that row's entry of g times the input.

Source: "Privacy-Preserving Deep Learning via Additively Homomorphic Encryption", section 3 (one unit); under noise all
units count: least squares where g is exact, total least squares (best rank one of [G g]) where it is as noisy as G.
"""

import numpy as np

from leaklab.attacks.first_layer.layer import FirstLayer, Floats, Reading, svd
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
    right = svd(np.column_stack([layer.weight_update, layer.bias_update]))[2]
    found: Floats = right[0, :-1] / right[0, -1]
    return found


# One sample from what pruning left: the best product of two vectors on the entries that are not zero.

MOST_ROUNDS, SETTLED = 500, 1e-13


def completed(layer: FirstLayer) -> Floats:
    """Return the input of one sample, [n]; the brightest pixel is 1 where no bias entry is left to tell the scale."""
    seen = np.column_stack([layer.weight_update, layer.bias_update])
    seen = seen / max(float(np.abs(seen).max()), np.finfo(float).tiny)
    kept = seen != 0
    inputs = svd(seen)[2][0]
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
