"""A text attack in parts: finished sentences are kept in a checkpoint, so that a killed job goes on.

A sentence's result depends on its own trial only, so a resumed job ends with the same bytes as an uninterrupted one.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from leaklab.attacks.search import StartRecord
from leaklab.attacks.text.matching_attack import TextReconstruction
from leaklab.records.errors import UserError
from leaklab.records.files import read_json, write_json


@dataclass(frozen=True)
class ReadSentence:
    """What was found for one trial, as plain data.

    Attributes:
        tokens: ids with start and end.
        label: the class.
        starts: a record per start.
    """

    tokens: tuple[int, ...]
    label: int
    starts: tuple[StartRecord, ...]


def plain(found: TextReconstruction) -> ReadSentence:
    """Return the only trial of a reconstruction as plain data."""
    (tokens,) = found.tokens
    return ReadSentence(tuple(tokens.tolist()), int(found.labels[0]), found.starts)


def starts_table(sentences: Sequence[ReadSentence]) -> pd.DataFrame:
    """Return one row per start, with ``chosen`` for the one of the smallest loss of its trial."""
    rows = []
    for sentence in sentences:
        best = min(sentence.starts, key=lambda start: start.matching_loss)
        rows += [asdict(start) | {"chosen": start is best} for start in sentence.starts]
    return pd.DataFrame(rows)


class TextCheckpoint:
    """The finished sentences of one job, in one JSON file; ``identity`` is what the job was asked to do."""

    def __init__(self, path: Path, identity: str) -> None:
        self.path = path
        self._identity = hashlib.sha256(identity.encode()).hexdigest()
        self._done = self._found()

    def sentence(self, row: int) -> ReadSentence | None:
        """Return a finished sentence, None where it is still to be done."""
        kept = self._done.get(str(row))
        if kept is None:
            return None
        return ReadSentence(tuple(kept["tokens"]), kept["label"], tuple(StartRecord(**s) for s in kept["starts"]))

    def keep(self, row: int, sentence: ReadSentence) -> None:
        """Add a finished sentence to the file."""
        self._done[str(row)] = asdict(sentence)
        write_json(self.path, {"identity": self._identity, "done": self._done})

    def remove(self) -> None:
        """Delete the file: the job is done."""
        self.path.unlink(missing_ok=True)

    def _found(self) -> dict[str, Any]:
        if not self.path.exists():
            return {}
        try:
            content = read_json(self.path)
        except UserError:
            return {}  # a damaged checkpoint only costs time
        # another spec, observation or code: its sentences are not ours
        fits = isinstance(content, dict) and content.get("identity") == self._identity
        return dict(content["done"]) if fits else {}
