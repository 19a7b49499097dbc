"""What the gradient of the word table gives away: which tokens there are, and in which order.

The row of a token that does not occur has a gradient of exactly zero: the bag of tokens lies open. The table of
positions receives, at row p, the derivative at the embedding of the p-th token; the word table receives the same
derivatives, summed over the places of each token. So W = A P with the matrix A of zeros and ones that says who stands
where, and A is the solution of a linear system: the sentence itself lies open too.

No factor on the gradient changes either, and nothing is searched: for one local step without noise or pruning this is
the worst case. The exact order needs one sentence per update and no more places than the embeddings have dimensions.
"""

from collections.abc import Collection

import torch
from torch import Tensor

from leaklab.attacks.least_squares import least_squares
from leaklab.records.errors import UserError

FITTED = 0.25
"""Largest distance of an entry of A from 0 or 1 that is still taken for it."""


def token_bag(word_gradient: Tensor) -> tuple[int, ...]:
    """Return the ids of the tokens that the batch holds, without counts, ascending.

    Args:
        word_gradient: [V, d], of the word table, times any factor; padding has no gradient and is never among them.

    Raises:
        UserError: a gradient that is not finite.
    """
    _check(word_gradient)
    return tuple(word_gradient.abs().amax(1).nonzero()[:, 0].tolist())


def token_order(word_gradient: Tensor, position_gradient: Tensor) -> Tensor:
    """Return the tokens of one sentence in their order, start and end included.

    Args:
        word_gradient: [V, d], times any factor.
        position_gradient: [P, d], of the table of absolute positions, times the same factor.

    Returns:
        int64 [L]; L is the number of positions with a gradient.

    Raises:
        UserError: not finite, not from one sentence and one step, or more positions than dimensions.
    """
    _check(word_gradient)
    _check(position_gradient)
    bag = torch.tensor(token_bag(word_gradient), dtype=torch.int64, device=word_gradient.device)
    places = position_gradient.abs().amax(1).nonzero()[:, 0]
    if len(bag) == 0 or len(places) == 0:
        raise UserError("the tables' gradients are zero: there is no token to read")
    at_places = position_gradient[places].double()
    # each place's derivative in units of its own, or the far places' rounding would drown
    units = at_places.norm(dim=1, keepdim=True)
    solved = least_squares((at_places / units).T, word_gradient[bag].double().T, "gelsd")
    who = (solved / units).T
    if not bool((torch.minimum(who.abs(), (who - 1).abs()) < FITTED).all() and (who.round().sum(0) == 1).all()):
        raise UserError(
            "the tables' gradients do not fit one sentence: token_order needs batch_size 1 and one local step"
        )
    return bag[who.argmax(0)]


def _check(gradient: Tensor) -> None:
    if gradient.dim() != 2 or not gradient.isfinite().all():
        raise UserError("a table's gradient must be finite and [rows, width]: capture the update again")


# Reading tokens out of embeddings: the nearest row of the word table by cosine.


def nearest_tokens(
    embeddings: Tensor, table: Tensor, allowed: Collection[int] | None = None, banned: Collection[int] = ()
) -> Tensor:
    """Return the token of each embedding.

    Args:
        embeddings: [L, d].
        table: [V, d].
        allowed: tokens to choose from, e.g. a bag that is known; None for all.
        banned: tokens never chosen, e.g. padding, start and end.

    Returns:
        int64 [L].

    Raises:
        UserError: no token is left to choose.
    """
    left = [
        token for token in (range(len(table)) if allowed is None else sorted(set(allowed))) if token not in set(banned)
    ]
    if not left:
        raise UserError("no token may be chosen for the read-out: allow more of the vocabulary")
    candidates = torch.tensor(left, device=table.device)
    rows = torch.nn.functional.normalize(table[candidates], dim=1)
    # the embedding's own length does not change which cosine is largest
    return candidates[(embeddings @ rows.T).argmax(1)]
