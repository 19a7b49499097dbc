"""Batches exactly: FastICA, the zeros that the weights predict, a certificate, and the rest again.

An image from FastICA is nearly right, so the weights tell which units are surely off for it. There the derivatives of
its sample are zero: its direction q is the null vector of those rows of U, to rounding. Once certified samples are
projected away, what is left is the mixture of the others alone, an easier problem. No label, rate, length or prior is
used, and no image is searched.

Source: ours; of its parts, unmixing is that of "Cocktail Party Attack" and the zeros of ReLU units those of "SPEAR".
"""

import numpy as np

from leaklab.attacks.first_layer.layer import LIVE, FirstLayer, Floats, Reading, agreement, scaled
from leaklab.attacks.first_layer.quotient import MORE_ZEROS, ZERO, sparse_directions, sparse_images
from leaklab.attacks.first_layer.unmixing import CONTRASTS, unmixed
from leaklab.records import linear_algebra
from leaklab.records.streams import Stream

TRIES = 4
STARTS = 16
"""From which a certified image is looked for beside those that are not."""
OWN = 0.05
NEARLY_BLACK, LOST = 1e-3, 1e9
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
    sizes = linear_algebra.svd(layer.weight_update)[1]
    return max(TIGHT, 3 * float(sizes[count] / sizes[count - 1])) if len(sizes) > count else TIGHT


def _complement(known: Floats, count: int) -> Floats:
    """Return an orthonormal basis [b, b - k] of what is orthogonal to k known directions."""
    if not known.shape[1]:
        return np.eye(count)
    return linear_algebra.svd(known, full=True)[0][:, known.shape[1] :]


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
        new = direction - known @ linear_algebra.least_squares_of(known, direction) if known.shape[1] else direction
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
        _, sizes, right = linear_algebra.svd(left[off[:number]], full=True)
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
    """Return the batch that all certificates prove, else the most plausible of what other ways come to."""
    ways = [sparse_images(layer, count, draws)]
    if known.shape[1] == count:
        images = scaled(layer, count, known)
        agreed = agreement(layer, count, known, images)
        if agreed == 1:
            return Reading(images, count, agreed)
        ways.append(images)
    elif known.shape[1]:
        ways.append(_completed(layer, count, known, draws))
    elif rest is not None:
        ways.append(rest)
    chosen = max(ways, key=lambda images: _plausible(images, count))
    return Reading(chosen, _plausible(chosen, count)[0])


def _completed(layer: FirstLayer, count: int, known: Floats, draws: Stream) -> Floats:
    """Return the batch where k of b directions are certified.

    What is projected off them spans the other b - k images. A certified image is known up to those, so it is looked
    for, as a sparse vector, in a space of b - k + 1 dimensions in place of b.
    """
    left, right = layer.factors(count)
    sums, basis = left.T @ layer.bias_update, _complement(known, count)
    span = basis.T @ right
    others = span
    if len(span) > 1:
        others = sparse_images(FirstLayer(span, basis.T @ sums, layer.weight, layer.bias, layer.side), len(span), draws)
    mixing = np.column_stack([known, right @ linear_algebra.pseudo_inverse(np.nan_to_num(others))])
    rough = linear_algebra.least_squares_of(mixing, right)[: known.shape[1]]
    rows = np.vstack([*(_sparse_beside(image, span, draws) for image in rough), others])
    lengths = linear_algebra.least_squares_of(right @ linear_algebra.pseudo_inverse(np.nan_to_num(rows)), sums)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = rows / lengths[:, None]
    return found


def _sparse_beside(image: Floats, span: Floats, draws: Stream) -> Floats:
    """Return the sparsest of what an image and ``span`` [d, n] make together, but for its length."""
    axes = linear_algebra.svd(span)[2]
    apart = image - image @ axes.T @ axes
    size = np.linalg.norm(apart)
    basis = np.vstack([apart / max(size, np.finfo(float).tiny), axes]).T
    live = np.linalg.norm(basis, axis=1) > LIVE
    beside = draws.normal(STARTS, len(axes)).numpy() / len(axes) ** 0.5
    starts = np.vstack([image @ basis / max(size, np.finfo(float).tiny), np.column_stack([np.ones(STARTS), beside])])
    directions = sparse_directions(basis[live], starts)
    own = np.abs(directions[:, 0]) > OWN * np.linalg.norm(directions, axis=1)
    # what has nothing of the image itself is one of the span's
    found: Floats = basis @ directions[np.argmax(own)]
    return found


def _plausible(images: Floats, count: int) -> tuple[int, float]:
    """Return how many images have more black pixels than a mixture can have, and how much all look like images.

    No truth is used: mixtures of images have negative pixels and fewer black ones. Both by the logarithm, as one image
    that is not found leaves [0, 1] by more than all others together.
    """
    images = np.nan_to_num(images, nan=-LOST, posinf=LOST, neginf=-LOST)
    black = ((np.abs(images) < ZERO).sum(1) > count + MORE_ZEROS) & (images.min(1) > -ZERO)
    outside = np.square(images - np.clip(images, 0, 1)).mean(1)
    bright = np.abs(images) / np.maximum(np.abs(images).max(1, keepdims=True), ZERO)
    return int(black.sum()), -float(np.log(outside + ZERO**2).mean() + 2 * np.log(bright + NEARLY_BLACK).mean())
