"""Soft ranks: how likely an entry belongs to the largest ones of its tensor, if entries are known with an error only.

Whether the size of an entry g is among the k largest of its n is a step function of g. If sizes are uncertain by a
share w of the threshold, it becomes smooth:

    P(g among the k largest) = sigmoid(l),    l = (g^2 / t - 1) / (2 w)

with the threshold t such that these probabilities add up to k. Sizes enter by their squares, which have no kink at
zero; near the threshold l is (|g| / sqrt(t) - 1) / w. For w -> 0 the probability is 1 for the k largest and 0 for the
others.
"""

from math import log

import torch
from torch import Tensor

MOST_STEPS = 60
"""Newton steps, or halvings, for the logarithm of a threshold; four to eight are usual."""
NEAR = 1e-9
"""Error of the sum of the probabilities, relative to their number, from which one step more is exact."""
SHARE_OF_WIDEST = 0.8
NOTHING = 1e-20
"""What a size of zero counts, relative to the mean of its tensor."""


def rank_logits(sizes: Tensor, largest: Tensor, width: float) -> Tensor:
    """Return l of every entry: [T, n]; differentiable, also through the threshold.

    Args:
        sizes: squares of a tensor's entries for each trial, [T, n].
        largest: k of each trial, [T], above 0 and below n.
        width: w, positive; cut where entries of size zero would fill the k places.
    """
    width = min(width, _widest(sizes.shape[1], int(largest.min())))
    # entries that are all zero have to have a threshold too
    sizes = sizes + (NOTHING * sizes.mean(1, keepdim=True)).clamp(min=torch.finfo(sizes.dtype).tiny)
    with torch.no_grad():
        inverse = _inverse_threshold(sizes, largest, width)
        share = torch.sigmoid((sizes * inverse[:, None] - 1) / (2 * width))
        slope = (share * (1 - share) * sizes).sum(1) / (2 * width)
        slope = slope.clamp(min=torch.finfo(slope.dtype).tiny)
    # one Newton step more, through which the threshold's derivative comes (implicit function theorem)
    excess = torch.sigmoid((sizes * inverse[:, None] - 1) / (2 * width)).sum(1) - largest
    inverse = inverse - excess / slope
    return (sizes * inverse[:, None] - 1) / (2 * width)


def _widest(entries: int, largest: int) -> float:
    """Return the width up to which there is a threshold: entries of size zero have a probability too."""
    odds = entries / largest - 1
    return SHARE_OF_WIDEST / (2 * log(odds)) if odds > 1 else float("inf")


def _inverse_threshold(sizes: Tensor, largest: Tensor, width: float) -> Tensor:
    """Return 1 / t of each trial, [T], by Newton's method in its logarithm with a bracket."""
    ordered = sizes.sort(1, descending=True).values.log()
    place = largest.long()[:, None]
    guess = -ordered.gather(1, torch.cat([place - 1, place], 1)).mean(1)
    low, high = torch.full_like(guess, -torch.inf), torch.full_like(guess, torch.inf)
    for step in range(MOST_STEPS):
        product = sizes * guess.exp()[:, None]
        share = torch.sigmoid((product - 1) / (2 * width))
        excess = share.sum(1) - largest
        moving = excess.abs() > NEAR * largest
        if not bool(moving.any()):
            break
        low, high = torch.where(excess < 0, guess, low), torch.where(excess > 0, guess, high)
        slope = (share * (1 - share) * product).sum(1) / (2 * width)
        newton = guess - (excess / slope).clamp(-1, 1)
        middle = torch.where((low + high).isfinite(), (low + high) / 2, newton)
        inside = (newton > low) & (newton < high) & (step < MOST_STEPS // 2)
        # by trial, so that a trial's threshold does not depend on the others'
        guess = torch.where(moving, torch.where(inside, newton, middle), guess)
    return guess.exp()
