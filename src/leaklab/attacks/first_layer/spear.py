"""Batches by sampling: a sample's derivatives are zero wherever its unit is off.

With G = U R the derivatives are D^T = U Q diag(s), and a column q of Q makes U q zero where its sample's unit is off.
b rows of U are drawn and inverted; each column of the inverse is orthogonal to the other b - 1 rows, so one inverse
gives b candidates. A true q has about half of all units zero, one of chance just b - 1.

Source: "SPEAR: Exact Gradient Inversion of Batches in Federated Learning" (Dimitrov et al. 2024); taking all columns of
an inverse is the information-set trick of decoding.
"""

import time

import numpy as np
import torch

from leaklab.attacks.first_layer.layer import (
    LIVE,
    FirstLayer,
    Floats,
    Places,
    Reading,
    agreement,
    independent,
    scaled,
)
from leaklab.records import linear_algebra
from leaklab.records.streams import Stream

TOGETHER = 2048
MOST_INVERSES = 200_000
SECONDS = 60.0
ZERO = 1e-6
MOST_KEPT, MOST_LOOKED_AT = 4000, 4096


def read(layer: FirstLayer, count: int, draws: Stream) -> Reading:
    """Return the batch; NaN where no b independent sparse directions were found in the budget of a minute."""
    left, _ = layer.factors(count)
    sizes = np.linalg.norm(left, axis=1)
    rows = torch.from_numpy(left[sizes > LIVE * sizes.max()])
    best = Reading(np.full((count, layer.weight.shape[1]), np.nan), 0, 0.0)
    pool, floor = np.zeros((0, count)), count
    zeros: Places = np.zeros(0, dtype=np.int64)
    start, drawn = time.process_time(), 0
    while len(rows) >= count and drawn < MOST_INVERSES and time.process_time() - start < SECONDS:
        drawn += TOGETHER
        candidates, counted = _candidates(rows, count, floor, draws)
        pool, zeros = _merged(pool, zeros, candidates, counted)
        chosen = independent(pool, count)
        if len(chosen) < count:
            continue
        floor = int(zeros[chosen[-1]])  # only a sparser direction can change the basis
        directions = pool[chosen].T
        images = scaled(layer, count, directions)
        found = Reading(images, 0, agreement(layer, count, directions, images))
        best = max(best, found, key=lambda one: one.agreement or 0.0)
        if best.proven:
            return Reading(best.images, count, 1.0)
    return best


def _candidates(rows: torch.Tensor, count: int, floor: int, draws: Stream) -> tuple[Floats, Places]:
    """Return unit directions [*, b] that vanish on more than ``floor`` rows, and on how many."""
    picked = draws.uniform(TOGETHER, len(rows)).topk(count, 1).indices
    inverses, failed = torch.linalg.inv_ex(rows[picked])
    found = inverses.transpose(1, 2)[failed == 0].reshape(-1, count)
    found = found[found.isfinite().all(1)]
    found = found / found.norm(dim=1, keepdim=True)
    seen = (found @ rows.T).abs()
    zeros = (seen < ZERO * seen.amax(1, keepdim=True)).sum(1)
    order = zeros.argsort(descending=True)[:MOST_LOOKED_AT]
    order = order[zeros[order] > floor]
    order = order[_first_of_each(found[order].numpy())][: 8 * count]
    return _polished(seen[order], rows, count), zeros[order].numpy()


def _first_of_each(directions: Floats) -> Places:
    """Return the places of directions that differ, in their order."""
    if not len(directions):
        return np.zeros(0, dtype=np.int64)
    _, first = np.unique(_upright(directions).round(5), axis=0, return_index=True)
    return np.sort(first)


def _upright(directions: Floats) -> Floats:
    """Return directions with their largest entry positive."""
    return directions * np.sign(np.take_along_axis(directions, np.abs(directions).argmax(1)[:, None], 1))


def _polished(seen: torch.Tensor, rows: torch.Tensor, count: int) -> Floats:
    """Return the null vectors of all rows on which candidates vanish, given what they make of the rows."""
    exact = [linear_algebra.svd(rows[own < ZERO * own.max()].numpy(), full=True)[2][-1] for own in seen]
    return _upright(np.array(exact).reshape(-1, count)) if exact else np.zeros((0, count))


def _merged(pool: Floats, zeros: Places, more: Floats, counted: Places) -> tuple[Floats, Places]:
    """Return both sets of directions without repetitions, the sparsest first."""
    whole, numbers = np.vstack([pool, more]), np.concatenate([zeros, counted])
    _, first = np.unique(whole.round(5), axis=0, return_index=True)
    order = first[np.argsort(-numbers[first], kind="stable")][:MOST_KEPT]
    return whole[order], numbers[order]
