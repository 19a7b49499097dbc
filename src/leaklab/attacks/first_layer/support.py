"""One sample from what pruning left: the best product of two vectors on the entries that are not zero.

Of one sample (G, g) is d (x, 1)^T. Pruning zeroes the smallest entries, and a client cannot hide which. The others are
still products, far more of them than there are unknowns: alternating least squares on them finds d and x, exactly
without noise. A pixel of which no entry is left is dark, as its products were the smallest. Without zeros it is total
least squares.

Source: completion of a matrix of rank one by alternating least squares; that the support of a pruned gradient tells is
that of ``support-only``.
"""

import numpy as np

from leaklab.attacks.first_layer.layer import FirstLayer, Floats, svd

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
