"""A prepared text data set: sentences with labels, and the vocabulary that every client and the server share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leaklab.data.text.readers import Sentences
from leaklab.data.text.vocabulary import PADDING, Vocabulary
from leaklab.records.errors import UserError
from leaklab.records.files import read_json

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Corpus:
    """What is read from ``data/prepared/text/<name>.json``.

    Attributes:
        name: key of ``config/texts.yaml``.
        num_classes: labels are below it.
        sentences: all of them; clients hold some, the vocabulary is made of all.
        vocabulary: public.
        substitute: what it lacks compared with the paper's; None if nothing.
    """

    name: str
    num_classes: int
    sentences: Sentences
    vocabulary: Vocabulary
    substitute: str | None

    @classmethod
    def load(cls, path: Path) -> "Corpus":
        """Read a prepared text data set.

        Raises:
            UserError: the file is missing or is another one.
        """
        card: Mapping[str, Any] = read_json(path)
        try:
            sentences = Sentences(tuple(card["texts"]), tuple(card["labels"]))
            vocabulary = Vocabulary(tuple(card["vocabulary"]))
            return cls(card["name"], card["num_classes"], sentences, vocabulary, card["substitute"])
        except (KeyError, TypeError):
            raise UserError(f"{path} is not a prepared text data set: delete it and run snakemake again") from None


# Sentences as a batch of token ids of one length, with a mask that tells tokens from padding.


@dataclass(frozen=True, eq=False)
class TokenBatch:
    """Encoded sentences.

    Attributes:
        ids: int64 [N, L], start and end included, padded at the end.
        mask: int64 [N, L], 1 for tokens and 0 for padding.
    """

    ids: "Tensor"
    mask: "Tensor"

    @property
    def lengths(self) -> "Tensor":
        """Tokens per sentence with start and end, int64 [N]."""
        return self.mask.sum(1)


def encode_batch(vocabulary: Vocabulary, texts: Sequence[str], length: int | None = None) -> TokenBatch:
    """Encode sentences to ``length`` tokens; None for that of the longest.

    Nothing is cut: a sentence without its end would be another one.

    Raises:
        UserError: no sentences, or one that is longer than ``length``.
    """
    import torch  # who only reads a corpus needs none

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
