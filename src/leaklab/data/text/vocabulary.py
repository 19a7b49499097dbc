"""Words and their numbers: a declared rule for what a token is, and a vocabulary built from a corpus.

The rule stands in for BERT's word pieces, whose list is a download: lower case, curly quotes straightened, every run
of letters and digits one token, every other visible character one token. Rare words therefore stay whole.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from leaklab.records.errors import UserError

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
