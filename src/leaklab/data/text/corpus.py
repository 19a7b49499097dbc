"""A prepared text data set: sentences with labels, and the vocabulary that every client and the server share."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leaklab.data.text.readers import Sentences
from leaklab.records.errors import UserError
from leaklab.records.files import read_json

if TYPE_CHECKING:
    from torch import Tensor

# Words and their numbers: a declared rule for what a token is, and a vocabulary built from a corpus.
#
# The rule stands in for BERT's word pieces, whose list is a download: lower case, curly quotes straightened, every run
# of letters and digits one token, every other visible character one token. Rare words therefore stay whole.

PADDING, UNKNOWN, START, END = range(4)
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
"""Texts of the special tokens; no sentence can contain them, since brackets are tokens of their own."""
_TOKEN = re.compile(r"[^\W_]+|[^\w\s]|_")
_STRAIGHT = str.maketrans("\u2018\u2019\u201c\u201d", "''\"\"")


def split(text: str) -> tuple[str, ...]:
    """Return the tokens of a sentence."""
    return tuple(_TOKEN.findall(text.translate(_STRAIGHT).lower()))


@dataclass(frozen=True)
class Vocabulary:
    """Tokens by number: the special ones, then words by falling frequency, equally frequent ones alphabetically.

    Attributes:
        tokens: all tokens; a token's id is its place.
    """

    tokens: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.tokens[: len(SPECIAL)] != SPECIAL or len(set(self.tokens)) != len(self.tokens):
            raise UserError(
                f"a vocabulary begins with {' '.join(SPECIAL)} and has no token twice: build it from a corpus"
            )

    @classmethod
    def build(cls, corpus: Iterable[str], smallest_count: int = 1) -> "Vocabulary":
        """Return the vocabulary of the words that occur at least ``smallest_count`` times.

        Raises:
            UserError: no word does.
        """
        counts = Counter(token for text in corpus for token in split(text))
        kept = [word for word, count in counts.items() if count >= smallest_count]
        if not kept:
            raise UserError(
                f"no word occurs {smallest_count} times in the corpus: give more sentences or a smaller count"
            )
        return cls((*SPECIAL, *sorted(kept, key=lambda word: (-counts[word], word))))

    def __len__(self) -> int:
        return len(self.tokens)

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the ids of a sentence between start and end; a word that is not in the vocabulary is unknown."""
        return (START, *(self._numbers.get(token, UNKNOWN) for token in split(text)), END)

    def decode(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Return the tokens of ``ids`` without padding, start and end.

        Raises:
            UserError: an id outside the vocabulary.
        """
        wrong = [number for number in ids if not 0 <= number < len(self)]
        if wrong:
            raise UserError(
                f"token {wrong[0]} is outside the vocabulary of {len(self)}: decode with the one that encoded"
            )
        return tuple(self.tokens[number] for number in ids if number not in (PADDING, START, END))

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {token: number for number, token in enumerate(self.tokens)}


# A prepared data set.


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
