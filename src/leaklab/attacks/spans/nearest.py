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

LIKELIEST = 4
"""So many times the sentences, tokens are tried at a place; where no place shows, so many times the inputs in all."""
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


def leading(columns: Tensor, most: int) -> Tensor:
    """Return the leading directions [d, N] of columns [d, M], N by a gap if there is one, and at most ``most``."""
    left: Tensor
    left, values, _ = torch.linalg.svd(columns.double(), full_matrices=False)
    ratios = values[:-1] / values[1:].clamp(min=1e-300)
    count = int(ratios[:most].argmax()) + 1
    return left[:, : count if float(ratios[count - 1]) >= SMALLEST_GAP else most]


def likeliest(candidates: Candidates, basis: Tensor, length: int, batch: int) -> Accepted:
    """Return the tokens whose inputs have the largest share in leading directions [d, N], at each place or in all.

    Args:
        candidates: all tokens at all places.
        basis: of the first attention's inputs.
        length: of the longest sentence, L.
        batch: sentences, B.
    """
    sizes, squares = candidates.tables(slice(0, length))
    shares = candidates.squares_of(*candidates.parts(basis, slice(0, length)), sizes) / squares
    count = min(LIKELIEST * (batch if candidates.placed else basis.shape[1]), len(shares))
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
    away, chosen = pool.extend(-1).clone(), basis[:, :0]
    taken: list[float] = []
    while len(taken) <= most and len(away):
        far = _distances(away, basis)
        far[pool.chosen] = torch.inf
        far[away.square().sum(1) <= DEPENDENT * pool.inputs.square().sum(1)] = torch.inf
        number = int(far.argmin())
        if not bool(far[number].isfinite()):
            break
        taken.append(float(far[number]))
        own = away[number] / away[number].norm()
        own = own - chosen @ (chosen.T @ own)  # takes off what rounding left
        chosen = torch.cat([chosen, (own / own.norm())[:, None]], 1)
        away -= (away @ chosen[:, -1:]) @ chosen[:, -1:].T
        more = pool.extend(number)
        away = torch.cat([away, more - (more @ chosen) @ chosen.T])
    # a true prefix behind a farther one is as far as that: sentences are complete where the farthest jumps
    reach = list(accumulate(taken, max))
    jumps = [later - earlier for earlier, later in pairwise(reach)]
    last = jumps.index(max(jumps)) if jumps else 0
    gap = reach[last + 1] / max(reach[last], 1e-300) if jumps else 1.0
    if gap < APART:
        return NearestPrefixes(Prefixes.none(), 1.0)
    return NearestPrefixes(pool.tree(pool.chosen[: last + 1]), gap)


def _distances(vectors: Tensor, basis: Tensor) -> Tensor:
    off: Tensor = torch.linalg.vector_norm(vectors - (vectors @ basis) @ basis.T, dim=1)
    lengths: Tensor = torch.linalg.vector_norm(vectors, dim=1)
    return off / lengths.clamp(min=1e-300)
