"""A prepared text data set: sentences with labels, and the vocabulary that every client and the server share."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leaklab.data.text.cola import Sentences
from leaklab.data.text.vocabulary import Vocabulary
from leaklab.records.errors import UserError
from leaklab.records.files import read_json


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
