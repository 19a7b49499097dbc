"""Text data sets: words and their numbers, readers of files, and the prepared corpus that a task works with.

What a token is says a declared rule, which stands in for BERT's word pieces, whose list is a download: lower case,
curly quotes straightened, every run of letters and digits one token, every other visible character one token. Rare
words therefore stay whole. The vocabulary is built from a corpus, and every client and the server share it.
"""

import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from leaklab.records.errors import UserError
from leaklab.records.files import read_json
from leaklab.records.record import Component

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


# CoLA, sentences judged acceptable or not, from its public zip.

PARTS = ("in_domain_train", "in_domain_dev", "out_of_domain_dev")
COLUMNS = 4


@dataclass(frozen=True)
class Sentences:
    """One part of a text data set.

    Attributes:
        texts: the sentences as published.
        labels: 0 (not acceptable) or 1 (acceptable), one per sentence.
    """

    texts: tuple[str, ...]
    labels: tuple[int, ...]


def read_cola(archive: Path) -> Mapping[str, Sentences]:
    """Return the raw (untokenised) parts of ``cola_public.zip``, by the names of ``PARTS``.

    A line has four fields between tabs: source, label, the authors' own mark, sentence.

    Raises:
        UserError: the file is missing, damaged or another archive.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            contents = {part: opened.read(f"cola_public/raw/{part}.tsv").decode("utf-8") for part in PARTS}
    except KeyError as error:
        raise UserError(f"{archive} is not CoLA's public zip ({error.args[0]}): get cola_public.zip") from None
    except (OSError, RuntimeError, zipfile.BadZipFile, zlib.error, EOFError, UnicodeDecodeError) as error:
        raise UserError(f"{archive} cannot be read ({error}): get cola_public.zip again") from None
    return {part: _sentences(text, f"{archive}:{part}.tsv") for part, text in contents.items()}


def _sentences(text: str, where: str) -> Sentences:
    # no splitlines: a sentence may hold characters that Unicode counts as line ends
    rows = [line.rstrip("\r").split("\t") for line in text.split("\n") if line]
    for number, row in enumerate(rows, 1):
        if len(row) != COLUMNS or row[1] not in ("0", "1") or not row[3].strip():
            raise UserError(f"{where}, line {number}, is not source, 0 or 1, mark, sentence: get cola_public.zip again")
    if not rows:
        raise UserError(f"{where} holds no sentences: get cola_public.zip again")
    return Sentences(tuple(row[3] for row in rows), tuple(int(row[1]) for row in rows))


# The two sentences of LRP table 7: the embedded text data of scale demo.

PRINTED = Sentences(
    texts=(
        "One more pseudo generalization and I'm giving up.",
        "The more we study verbs, the crazier they get.",
    ),
    labels=(1, 1),
)


class TextReader(Protocol):
    """Decodes one format. Its dataclass fields are the settings that ``config/texts.yaml`` may give."""

    def read(self, files: Mapping[str, Path]) -> tuple[Sentences, Vocabulary]:
        """Return the sentences and the vocabulary of files, named by their roles; their checksums are known."""
        ...


@dataclass(frozen=True)
class Cola:
    """CoLA's public zip as role ``archive``: the in-domain training part.

    Attributes:
        smallest_count: words that occur less often in that part are unknown.
    """

    smallest_count: int = 1

    def read(self, files: Mapping[str, Path]) -> tuple[Sentences, Vocabulary]:
        """Return the training sentences and their words."""
        sentences = read_cola(_pick(files, "archive"))[PARTS[0]]
        return sentences, Vocabulary.build(sentences.texts, self.smallest_count)


@dataclass(frozen=True)
class Printed:
    """The two sentences of LRP table 7, which need no file, among the common words of role ``words``."""

    def read(self, files: Mapping[str, Path]) -> tuple[Sentences, Vocabulary]:
        """Return the two sentences, and as vocabulary the common words in their order, then those of the sentences."""
        common = split(_pick(files, "words").read_text(encoding="utf-8"))
        # counted over two sentences, frequency would point at their words
        own = sorted({token for text in PRINTED.texts for token in split(text)} - set(common))
        return PRINTED, Vocabulary((*SPECIAL, *dict.fromkeys(common), *own))


TEXT_READERS: dict[str, type[TextReader]] = {"cola": Cola, "printed": Printed}


def make_text_reader(choice: Component) -> TextReader:
    """Return the reader with its settings.

    Raises:
        UserError: no such reader, or a setting that it does not have.
    """
    if choice.name not in TEXT_READERS:
        raise UserError(f"unknown text reader '{choice.name}': choose from {', '.join(TEXT_READERS)}")
    try:
        return TEXT_READERS[choice.name](**choice.settings)
    except TypeError:
        raise UserError(f"text reader '{choice.name}' does not take {', '.join(choice.settings)}") from None


def _pick(files: Mapping[str, Path], role: str) -> Path:
    if role not in files:
        raise UserError(f"config/texts.yaml: the source needs a file called '{role}', it has {', '.join(files)}")
    return files[role]


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
