"""Batches from what pruning left: the kept entries of (G, g) are completed to the rank of the batch, and then read.

Of b samples [G g] = D^T [X 1] has rank b: m units and n inputs leave b (m + n + 1 - b) unknowns, far fewer than there
are entries. Pruning keeps the largest entries of each tensor as they are, and says of every other one that it is no
larger than the smallest that was kept. The factors that fit both are sought by L-BFGS from the best rank b of what is
seen::

    sum over kept (U V - o)^2 + sum over dropped max(0, |U V| - t)^2

A hidden rate is a factor on all of it. What is found is an estimate: a unit or a pixel of which few entries are left
stays uncertain, so nothing is ever certified on these grounds.

Source: ours; completion by factors, "Matrix Completion from a Few Entries" (Keshavan et al. 2010); that the support of
a pruned gradient tells is that of ``support-only``.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from leaklab.attacks.first_layer.layer import FirstLayer, Floats, Reading
from leaklab.attacks.first_layer.unmixing import Contrast, unmixed
from leaklab.records import linear_algebra
from leaklab.records.streams import Stream

Reader = Callable[[FirstLayer, int, Stream], Reading]

MOST_ROUNDS, PAIRS = 1500, 20
ROUNDING = 1e-6
"""Share of the b-th singular value below which the next one says that rank b is there already."""
MISFIT = 0.005
"""Relative error of the kept entries above which they are not those of a product of rank b: noise, or another rank."""
WELL_KNOWN = 2
"""How many kept entries a pixel needs, for each sample, to be unmixed by."""
CONTRASTS: tuple[Contrast, ...] = ("logcosh", "exp")


@dataclass(frozen=True, eq=False)
class Completion:
    """A first layer's update as it was before pruning, as far as can be told.

    Attributes:
        layer: with the completed update.
        misfit: relative error of the kept entries.
        known: pixels of which enough entries are left, [n].
    """

    layer: FirstLayer
    misfit: float
    known: NDArray[np.bool_]


def read(layer: FirstLayer, count: int, draws: Stream, reader: Reader) -> Reading:
    """Return the batch that ``reader`` finds in the completed update, or that well-known pixels tell apart better.

    Which reading is better the weights tell: a derivative is zero where a ReLU unit is off. An update of rank b is left
    as it is, its certificates included; of one that rank b does not explain nothing is read.

    Args:
        layer: zeros are entries that were dropped; without an L2 term.
        count: b.
        draws: of the attack.
        reader: of an update that was not pruned.

    Raises:
        UserError: see ``FirstLayer.factors``.
    """
    layer.factors(count)
    if _has_rank(layer, count):
        return reader(layer, count, draws)
    nothing = Reading(np.full((count, layer.weight.shape[1]), np.nan))
    if not determined(layer, count):
        return nothing
    found = completed(layer, count)
    if found.misfit > MISFIT:
        return nothing
    ways = [image for image in _ways(found, count, draws, reader) if np.isfinite(image).all()]
    return Reading(min(ways, key=lambda images: misplaced(found.layer, count, images))) if ways else nothing


def determined(layer: FirstLayer, count: int) -> bool:
    """Tell whether as many entries were kept as a product of rank b has unknowns."""
    kept = _joined(layer) != 0
    return bool(kept.sum() >= count * (kept.any(1).sum() + kept.any(0).sum() - count))


def completed(layer: FirstLayer, count: int) -> Completion:
    """Return the update of rank b = ``count`` that fits what was kept and what was dropped.

    A unit or a pixel without any kept entry is taken for 0: its products were the smallest.
    """
    seen = _joined(layer)
    rows, columns = (np.flatnonzero((seen != 0).any(axis)) for axis in (1, 0))
    live = seen[np.ix_(rows, columns)]
    bounds = np.full(live.shape, _smallest(layer.weight_update))
    bounds[:, columns == seen.shape[1] - 1] = _smallest(layer.bias_update)
    kept = live != 0
    unit = float(np.sqrt(np.square(live[kept]).mean()))
    product = unit * _factored(live / unit, bounds / unit, count)
    whole = np.zeros_like(seen)
    whole[np.ix_(rows, columns)] = product
    misfit = float(np.linalg.norm((product - live)[kept]) / np.linalg.norm(live))
    known = (layer.weight_update != 0).sum(0) >= WELL_KNOWN * count
    return Completion(replace(layer, weight_update=whole[:, :-1], bias_update=whole[:, -1]), misfit, known)


def misplaced(layer: FirstLayer, count: int, images: Floats) -> float:
    """Return the share of the derivatives' squares at units that the weights say are off, in [0, 1]."""
    left, right = layer.factors(count)
    squares = np.square(left @ linear_algebra.least_squares_of(images.T, right.T).T)
    off = (np.clip(images, 0, 1) @ layer.weight.T + layer.bias < 0).T
    return float(((squares * off).sum(0) / np.maximum(squares.sum(0), np.finfo(float).tiny)).mean())


def _has_rank(layer: FirstLayer, count: int) -> bool:
    sizes = linear_algebra.svd(_joined(layer))[1]
    return len(sizes) <= count or bool(sizes[count] <= ROUNDING * sizes[count - 1])


def _joined(layer: FirstLayer) -> Floats:
    """Return [G g], [m, n + 1]."""
    return np.column_stack([layer.weight_update, layer.bias_update])


def _smallest(values: Floats) -> float:
    """Return the smallest magnitude that was kept; inf where all were dropped."""
    return float(np.abs(values[values != 0]).min(initial=np.inf))


def _factored(seen: Floats, bounds: Floats, count: int) -> Floats:
    """Return the product [m, n] of rank b nearest to ``seen`` where that is not zero, within ``bounds`` elsewhere."""
    from scipy.optimize import minimize  # slow to import

    kept, units = seen != 0, len(seen)
    left, sizes, right = linear_algebra.svd(seen)
    root = np.sqrt(sizes[:count])
    start = np.concatenate([(left[:, :count] * root).ravel(), (root[:, None] * right[:count]).ravel()])

    def split(point: Floats) -> tuple[Floats, Floats]:
        return point[: units * count].reshape(units, count), point[units * count :].reshape(count, -1)

    def loss(point: Floats) -> tuple[float, Floats]:
        u, v = split(point)
        product = u @ v
        error = np.where(kept, product - seen, product - np.clip(product, -bounds, bounds))
        return 0.5 * float((error**2).sum()), np.concatenate([(error @ v.T).ravel(), (u.T @ error).ravel()])

    options = {"maxiter": MOST_ROUNDS, "maxfun": 2 * MOST_ROUNDS, "maxcor": PAIRS, "ftol": 1e-14, "gtol": 1e-9}
    u, v = split(minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x)
    found: Floats = u @ v
    return found


def _ways(found: Completion, count: int, draws: Stream, reader: Reader) -> Iterable[Floats]:
    """Yield the images [b, n] that each way comes to."""
    layer = found.layer
    left, right = layer.factors(count)
    yield reader(layer, count, draws).images
    for contrast in CONTRASTS:
        try:
            yield unmixed(right, left.T @ layer.bias_update, layer.side, draws, contrast, known=found.known)
        except (np.linalg.LinAlgError, ValueError):
            continue
