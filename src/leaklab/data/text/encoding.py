"""Sentences as a batch of token ids of one length, with a mask that tells tokens from padding."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from leaklab.data.text.vocabulary import PADDING, Vocabulary
from leaklab.records.errors import UserError


@dataclass(frozen=True, eq=False)
class TokenBatch:
    """Encoded sentences.

    Attributes:
        ids: int64 [N, L], start and end included, padded at the end.
        mask: int64 [N, L], 1 for tokens and 0 for padding.
    """

    ids: Tensor
    mask: Tensor

    @property
    def lengths(self) -> Tensor:
        """Tokens per sentence with start and end, int64 [N]."""
        return self.mask.sum(1)


def encode_batch(vocabulary: Vocabulary, texts: Sequence[str], length: int | None = None) -> TokenBatch:
    """Encode sentences to ``length`` tokens; None for that of the longest.

    Nothing is cut: a sentence without its end would be another one.

    Raises:
        UserError: no sentences, or one that is longer than ``length``.
    """
    if not texts:
        raise UserError("no sentences to encode: give at least one")
    encoded = [vocabulary.encode(text) for text in texts]
    longest = max(map(len, encoded))
    length = longest if length is None else length
    if longest > length:
        raise UserError(f"a sentence has {longest} tokens with start and end, more than {length}: raise the length")
    ids = torch.tensor([[*row, *[PADDING] * (length - len(row))] for row in encoded], dtype=torch.int64)
    sizes = torch.tensor([len(row) for row in encoded])
    return TokenBatch(ids, (torch.arange(length) < sizes[:, None]).to(torch.int64))
