"""Readers of text data sets by the name that ``config/texts.yaml`` uses."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from leaklab.data.text.cola import PARTS, Sentences, read_cola
from leaklab.data.text.printed import PRINTED
from leaklab.data.text.vocabulary import SPECIAL, Vocabulary, split
from leaklab.records.errors import UserError
from leaklab.records.record import Component


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
