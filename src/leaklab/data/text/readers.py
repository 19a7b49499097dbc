"""Readers of text data sets by the name that ``config/texts.yaml`` uses."""

import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from leaklab.data.text.vocabulary import SPECIAL, Vocabulary, split
from leaklab.records.errors import UserError
from leaklab.records.record import Component

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
