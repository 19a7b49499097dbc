"""The law of a defense that changes runs of entries: neighbours share their fate, and which runs is drawn anew.

What it learns is the ``SlicedLaw`` of rehearsals: how many blocks are changed, the deviation of the noise in them, and
whether the gradient is still there under it.
"""

import torch
from torch import Tensor

from leaklab.attacks.adaptive.sliced_mixture import BLOCK, SlicedLaw
from leaklab.attacks.learnt.entries import EXACT
from leaklab.attacks.learnt.linear import TINY, Rehearsals

UNANIMOUS, FEW = 0.9, 0.02
"""Share of blocks in which all entries are kept or none, and of blocks of one kind, from which on it is such a law."""


def learnt(rehearsals: Rehearsals) -> SlicedLaw | None:
    """Return the law; None where blocks do not share their fate, or hardly any is kept or changed."""
    pairs = list(zip(rehearsals.gradients, rehearsals.sent, strict=True))
    kept = [(o - g).abs() <= EXACT * g.abs() for g, o in pairs]
    shares = torch.cat([_blocks(mask.double()).mean(2).flatten() for mask in kept if mask.shape[1] >= BLOCK])
    if not len(shares) or float(((shares == 0) | (shares == 1)).double().mean()) < UNANIMOUS:
        return None
    changed = float((shares < 1).double().mean())
    if not FEW <= changed <= 1 - FEW:
        return None
    gradient, sent = (
        torch.cat([value[~mask] for value, mask in zip(values, kept, strict=True)])
        for values in zip(*pairs, strict=True)
    )
    there = float((gradient * sent).sum()) > 0.5 * float((gradient**2).sum())
    sigma = float((sent - gradient if there else sent).pow(2).mean().sqrt())
    return SlicedLaw(changed, max(sigma, TINY**0.5), not there)


def _blocks(value: Tensor) -> Tensor:
    """Return [R, n] as whole blocks, [R, n // BLOCK, BLOCK]."""
    whole = value.shape[1] // BLOCK * BLOCK
    return value[:, :whole].reshape(len(value), -1, BLOCK)
