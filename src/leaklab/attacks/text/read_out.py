"""Reading tokens out of embeddings: the nearest row of the word table by cosine."""

from collections.abc import Collection

import torch
from torch import Tensor

from leaklab.records.errors import UserError


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
