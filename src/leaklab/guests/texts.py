"""Sentences of an arena: of installed packages or a user's file, as numbers of tokens, and a network of these."""

import csv
import importlib.util
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from leaklab.data.text.corpus import Vocabulary, split
from leaklab.models.text.base import TextArchitecture
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

DESCRIPTIONS = "descriptions"
"""The texts by which scikit-learn describes its data sets; the file is the label."""
FILES = ("breast_cancer", "california_housing", "covtype", "diabetes", "digits", "iris", "kddcup99", "lfw",
         "olivetti_faces", "rcv1", "species_distributions", "twenty_newsgroups", "wine_data")  # fmt: skip
PARTS, COLUMNS = ("public", "private"), ("part", "label", "sentence")
PRIVATE = 30
"""Sentences of the house that are kept private."""
MARKUP = re.compile(r"^\s*(\.\.|:|\||=|\*|-|>>>|\d+\s)")
ENDS = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
WORDS = 0.8
"""Share of a sentence's tokens that are words of the language; tables and addresses have fewer."""


@dataclass(frozen=True)
class Corpus:
    """Sentences as numbers; a sentence is cut to its first tokens, and a shorter one is left out.

    Attributes:
        vocabulary: of all of them, as that of a model is public.
        ids: of each part, [N, L] with start and end.
        labels: of each part, [N].
    """

    vocabulary: Vocabulary
    ids: tuple[Tensor, Tensor]
    labels: tuple[Tensor, Tensor]


def corpus_of(given: str, folder: Path, length: int) -> Corpus:
    """Return the sentences of an arena.

    Args:
        given: ``descriptions``, or a CSV file with the columns ``part`` (public or private), ``label`` (from 0) and
            ``sentence``.
        folder: where that file lies.
        length: tokens of a sentence.

    Raises:
        UserError: they are missing, or are none.
    """
    rows = _of_house(length) if given == DESCRIPTIONS else _own(folder / given)
    kept = [(part, label, split(text)[:length]) for part, label, text in rows if len(split(text)) >= length]
    if not kept:
        raise UserError(f"{given}: no sentence of {length} tokens: lower `length`, or give longer ones")
    public, private = ({tokens for own, _, tokens in kept if own == part} for part in PARTS)
    if both := public & private:
        raise UserError(f"{given}: '{' '.join(min(both))}' is public and private: leave it in one part")
    vocabulary = Vocabulary.build(" ".join(tokens) for _, _, tokens in kept)
    by_part = [[(label, vocabulary.encode(" ".join(tokens))) for own, label, tokens in kept if own == part]
               for part in PARTS]  # fmt: skip
    ids = tuple(torch.tensor([one for _, one in rows], dtype=torch.int64).view(-1, length + 2) for rows in by_part)
    labels = tuple(torch.tensor([label for label, _ in rows], dtype=torch.int64) for rows in by_part)
    return Corpus(vocabulary, (ids[0], ids[1]), (labels[0], labels[1]))


def _of_house(length: int) -> Iterator[tuple[str, int, str]]:
    """Yield part, label and text of each sentence of ``descriptions``, in an order of no file."""
    spec = importlib.util.find_spec("sklearn")
    folder = Path(*(spec.submodule_search_locations or [])) / "datasets/descr" if spec else Path("datasets/descr")
    found: dict[tuple[str, ...], tuple[int, str]] = {}
    for label, name in enumerate(FILES):
        file = folder / f"{name}.rst"
        if not file.is_file():
            raise UserError(f"sklearn with {file.name} is missing: install leaklab's requirements again")
        for text in _sentences(file.read_text(encoding="utf-8").splitlines(), length):
            found.setdefault(split(text)[:length], (label, text))  # some stand in several files
    order, rows = stream(0, "arena", "sentences").permutation(len(found)).tolist(), list(found.values())
    for place, number in enumerate(order):
        yield (PARTS[place < PRIVATE], *rows[number])


def _sentences(lines: Iterable[str], length: int) -> Iterator[str]:
    """Yield the sentences of a text that are long enough and made of words."""
    paragraphs = " ".join("\n" if not line.strip() or MARKUP.match(line) else line.strip() for line in lines)
    for paragraph in paragraphs.split("\n"):
        for text in ENDS.split(paragraph.strip()):
            tokens = split(text)[:length]
            if len(tokens) == length and sum(token.isalpha() for token in tokens) >= WORDS * length:
                yield text


def _own(path: Path) -> Iterator[tuple[str, int, str]]:
    """Yield part, label and text of each sentence of a user's file.

    Raises:
        UserError: it is missing, or has something else in it.
    """
    if not path.is_file():
        raise UserError(f"{path} is missing: sentences are {DESCRIPTIONS}, or a CSV file beside the arena's")
    try:
        with path.open(encoding="utf-8", newline="") as handle:
            rows = list(csv.DictReader(handle, strict=True))
    except (csv.Error, UnicodeDecodeError) as error:
        raise UserError(f"{path}: no CSV file in UTF-8: {error}") from None
    for number, row in enumerate(rows, 2):
        if not set(COLUMNS) <= row.keys() or row["part"] not in PARTS or not str(row["label"]).isdecimal():
            raise UserError(
                f"{path}, line {number}: write the columns {', '.join(COLUMNS)}: a part is {' or '.join(PARTS)}, a "
                "label a whole number from 0"
            )
        yield row["part"], int(row["label"]), row["sentence"] or ""


def of_ids(architecture: TextArchitecture, vocabulary: int, classes: int, dtype: torch.dtype) -> nn.Module:
    """Return a network of texts, all weights zero, that is called with ids [N, L] and returns logits [N, K]."""
    network = architecture.build(vocabulary, classes).to(dtype)
    network.forward = partial(_logits, network)  # called like a network of images
    return network


def _logits(network: nn.Module, ids: Tensor) -> Tensor:
    found: Tensor = type(network).forward(network, input_ids=ids).logits
    return found
