"""Batches exactly: FastICA, the zeros that the weights predict, a certificate, and the rest again.

An image from FastICA is nearly right, so the weights tell which units are surely off for it. There the derivatives of
its sample are zero: its direction q is the null vector of those rows of U, to rounding. Once certified samples are
projected away, what is left is the mixture of the others alone, an easier problem. No label, rate, length or prior is
used, and no image is searched.

Source: ours; of its parts, unmixing is that of "Cocktail Party Attack" and the zeros of ReLU units those of "SPEAR".
"""

import numpy as np

from leaklab.attacks.first_layer.black_pixels import MORE_ZEROS, ZERO, sparse_images
from leaklab.attacks.first_layer.layer import LIVE, FirstLayer, Floats, Reading, agreement, scaled
from leaklab.attacks.first_layer.unmixing import CONTRASTS, unmixed
from leaklab.records.streams import Stream

TRIES = 4
TIGHT, LOOSE = 1e-8, 1e-5
"""Shares of the largest singular value below which one is zero, and above which one is not."""
MOSTLY = 0.92
"""Of the other units that are predicted off, the share that has to be zero too."""


def read(layer: FirstLayer, count: int, draws: Stream) -> Reading:
    """Return the batch; what is never certified is left as FastICA found it."""
    left, right = layer.factors(count)
    sums, tight = left.T @ layer.bias_update, _zero_of(layer, count)
    known, rest, tries = np.zeros((count, 0)), None, 0
    while known.shape[1] < count and tries < TRIES:
        before = known.shape[1]
        basis = _complement(known, count)
        mixtures, part = basis.T @ right, basis.T @ sums
        found = _images(mixtures, part, layer, draws, tries)
        rest = found[: count - before] if len(found) and (rest is None or len(rest) != count - before) else rest
        known = _with_certified(layer, left, found, known, tight)
        tries += known.shape[1] == before
        if count - before == 1 and known.shape[1] == before:
            break
    return _reading(layer, count, known, rest, draws)


def _zero_of(layer: FirstLayer, count: int) -> float:
    """Return how small counts as zero: rounding and noise show in what is left of G beyond rank b."""
    sizes = np.linalg.svd(layer.weight_update, compute_uv=False)
    return max(TIGHT, 3 * float(sizes[count] / sizes[count - 1])) if len(sizes) > count else TIGHT


def _complement(known: Floats, count: int) -> Floats:
    """Return an orthonormal basis [b, b - k] of what is orthogonal to k known directions."""
    if not known.shape[1]:
        return np.eye(count)
    rest: Floats = np.linalg.svd(known, full_matrices=True)[0][:, known.shape[1] :]
    return rest


def _images(mixtures: Floats, sums: Floats, layer: FirstLayer, draws: Stream, tries: int) -> Floats:
    """Return images that the mixtures may be of: as FastICA has them, and moved to black pixels."""
    if len(mixtures) == 1:
        alone: Floats = mixtures / sums[0]
        return alone
    contrast = CONTRASTS[tries % len(CONTRASTS)]
    rest = FirstLayer(mixtures, sums, layer.weight, layer.bias, layer.side)
    try:
        rough = unmixed(mixtures, sums, layer.side, draws, contrast)
        found = np.vstack([rough, sparse_images(rest, len(mixtures), draws)])
    except (np.linalg.LinAlgError, ValueError):
        return np.zeros((0, mixtures.shape[1]))
    return found


def _with_certified(layer: FirstLayer, left: Floats, images: Floats, known: Floats, tight: float) -> Floats:
    """Return the known directions [b, *] and those that images certify besides."""
    count = left.shape[1]
    for image in images[np.isfinite(images).all(1)]:
        if known.shape[1] == count:
            break
        tried = (certified(left, layer.weight @ one + layer.bias, tight) for one in (image, np.clip(image, 0, 1)))
        direction = next((one for one in tried if one is not None), None)
        if direction is None:
            continue
        new = direction - known @ np.linalg.lstsq(known, direction, rcond=None)[0] if known.shape[1] else direction
        if np.linalg.norm(new) > 1e-6:
            known = np.column_stack([known, direction])
    return known


def certified(left: Floats, outputs: Floats, tight: float) -> Floats | None:
    """Return the direction q [b] with U q = 0 on the units that are off, the surest first; None where none is exact.

    The first k >= b units are exact where they have exactly one null vector: b rows in general position have none.
    """
    off = np.flatnonzero(outputs < 0)
    off = off[np.argsort(outputs[off])]
    off = off[np.linalg.norm(left[off], axis=1) > LIVE * np.abs(left).max()]
    best, number, loose = None, left.shape[1], max(LOOSE, 5 * tight)
    while number <= len(off):
        _, sizes, right = np.linalg.svd(left[off[:number]])
        if sizes[-1] > tight * sizes[0]:
            break
        if len(sizes) < 2 or sizes[-2] > loose * sizes[0]:
            best = right[-1]
        number += max(1, (len(off) - number) // 3)
    if best is None:
        return None
    # units that few samples use can have a null vector by chance: then most others that should be zero are not
    seen = np.abs(left[off] @ best)
    zero = max(1e-6, 30 * tight) * np.abs(left @ best).max()
    return best if (seen < zero).mean() >= MOSTLY else None


def _reading(layer: FirstLayer, count: int, known: Floats, rest: Floats | None, draws: Stream) -> Reading:
    certain = known.shape[1]
    if certain == count:
        images = scaled(layer, count, known)
        return Reading(images, count, agreement(layer, count, known, images))
    images = sparse_images(layer, count, draws)
    black = ((np.abs(images) < ZERO).sum(1) > count + MORE_ZEROS) & (images.min(1) > -ZERO)
    if rest is None or black.sum() > certain:
        return Reading(images, int(black.sum()))
    if not certain:
        return Reading(rest)
    # the rest as FastICA left it gives the missing directions, so that the certified ones can be told from them
    left, right = layer.factors(count)
    basis = _complement(known, count)
    mixing = np.column_stack([known, basis @ ((basis.T @ right) @ np.linalg.pinv(rest))])
    lengths = np.linalg.lstsq(mixing, left.T @ layer.bias_update, rcond=None)[0]
    return Reading(np.linalg.lstsq(mixing, right, rcond=None)[0] / lengths[:, None], certain)
