"""Sentences of a decoder where noise, pruning or several steps leave no rank: prefixes by how near they come, no proof.

The inputs of N tokens span N directions, and the N leading ones of a blurred gradient are near them. What a true
prefix's input has besides the chosen ones lies nearer to them than that of any false one, long after no tolerance
could be named. So prefixes grow nearest first: each one brings its extensions by the likeliest tokens. True ones come
before all false ones, and where the farthest so far jumps most, the sentences are complete.
"""

from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from leaklab.attacks.spans.pool import Pool
from leaklab.attacks.spans.prefixes import Prefixes
from leaklab.attacks.spans.span import DEPENDENT, SMALLEST_GAP, Accepted, Candidates
from leaklab.models.text.first_block import FirstBlock
from leaklab.records import tensor_algebra

LIKELIEST, LIKELIEST_TOKENS = 4, 2
"""So many times the sentences, tokens are tried at a place; where no place shows, so many times the inputs in all."""
ROOM = 0.75
"""More inputs than this part of the width, whose number no gap tells, leave false ones too little to be far in."""
APART = 1.5
"""By less than this factor the next prefix is no farther: nothing says where the true ones end."""


@dataclass(frozen=True, eq=False)
class NearestPrefixes:
    """What comes nearest.

    Attributes:
        prefixes: a tree.
        gap: how many times farther the next one is; from 1.
    """

    prefixes: Prefixes
    gap: float


def leading(columns: Tensor, most: int) -> Tensor | None:
    """Return the leading directions [d, N] of columns [d, M], N by a gap, or ``most``; None if that leaves no room."""
    left: Tensor
    left, values, _ = tensor_algebra.svd(columns.double())
    ratios = (values[:-1] / values[1:].clamp(min=1e-300))[:most]
    if float(ratios.max()) >= SMALLEST_GAP:
        return left[:, : int(ratios.argmax()) + 1]
    return left[:, :most] if most <= ROOM * len(left) else None


def likeliest(candidates: Candidates, basis: Tensor, length: int, batch: int) -> Accepted:
    """Return the tokens whose inputs have the largest share in leading directions [d, N], at each place or in all.

    Args:
        candidates: all tokens at all places.
        basis: of the first attention's inputs.
        length: of the longest sentence, L.
        batch: sentences, B.
    """
    shares = candidates.shares(basis, length)
    count = LIKELIEST * batch if candidates.placed else LIKELIEST_TOKENS * basis.shape[1]
    count = min(count, len(shares))
    tokens = shares.topk(count, 0).indices
    places = torch.arange(shares.shape[1]).expand(count, -1)
    tokens, places = tokens.flatten(), places.flatten()
    distances = (1 - shares[tokens, places]).clamp(min=0).sqrt()
    return Accepted(tokens, places if candidates.placed else torch.full_like(places, -1), distances)


def nearest_prefixes(block: FirstBlock, accepted: Accepted, basis: Tensor, most: int) -> NearestPrefixes:
    """Return the prefixes whose perceptron inputs come nearest to leading directions.

    Args:
        block: the first block.
        accepted: which tokens may stand where.
        basis: of the perceptron's inputs, orthonormal, [d, N].
        most: how many there are at most.
    """
    pool = Pool(block, accepted, "mlp")
    tried, taken = _Tried(basis), list[float]()
    tried.add(pool.extend(-1))
    while len(taken) <= most and (found := tried.nearest()) is not None:
        number, distance = found
        taken.append(distance)
        tried.choose(number)
        tried.add(pool.extend(number))
    # a true prefix behind a farther one is as far as that: sentences are complete where the farthest jumps
    reach = list(accumulate(taken, max))
    jumps = [later - earlier for earlier, later in pairwise(reach)]
    last = jumps.index(max(jumps)) if jumps else 0
    gap = reach[last + 1] / max(reach[last], 1e-300) if jumps else 1.0
    if gap < APART:
        return NearestPrefixes(Prefixes.none(), 1.0)
    return NearestPrefixes(pool.tree(pool.chosen[: last + 1]), gap)


class _Tried:
    """Inputs that were tried: what they have besides the chosen ones [n, d], and how far that is from a space.

    Squared lengths are kept up from choice to choice; computed anew each time, they would be most of the work.
    """

    def __init__(self, basis: Tensor) -> None:
        self._basis, self._chosen = basis, basis[:, :0]
        self._away, self._count = basis.new_zeros(1024, len(basis)), 0
        self._whole = self._length = self._off = basis.new_zeros(0)

    def add(self, inputs: Tensor) -> None:
        """Try more inputs [n, d]."""
        last = self._count + len(inputs)
        if last > len(self._away):
            self._away = torch.cat([self._away, self._away.new_zeros(last, len(self._basis))])
        away = inputs - (inputs @ self._chosen) @ self._chosen.T
        self._away[self._count : last], self._count = away, last
        for name, value in (("_whole", inputs), ("_length", away), ("_off", self._without(away))):
            setattr(self, name, torch.cat([getattr(self, name), value.square().sum(1)]))

    def nearest(self) -> tuple[int, float] | None:
        """Return the number of the nearest input that has something besides the chosen ones, and its distance."""
        far = self._off / self._length.clamp(min=1e-300)
        far[self._length <= DEPENDENT * self._whole] = torch.inf
        if not len(far) or not bool(far.min().isfinite()):
            return None
        number = int(far.argmin())
        return number, float(far[number].clamp(min=0).sqrt())

    def choose(self, number: int) -> None:
        """Take an input off all that were tried."""
        own = self._away[number] / self._away[number].norm()
        own = own - self._chosen @ (self._chosen.T @ own)  # takes off what rounding left
        own = own / own.norm()
        outside = self._without(own[None])[0]
        away = self._away[: self._count]
        along, across = away @ own, away @ outside
        self._length = self._length - along.square()
        self._off = self._off - 2 * along * across + along.square() * outside.square().sum()
        away -= along[:, None] * own
        self._chosen = torch.cat([self._chosen, own[:, None]], 1)

    def _without(self, vectors: Tensor) -> Tensor:
        return vectors - (vectors @ self._basis) @ self._basis.T
