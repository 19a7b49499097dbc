"""CoLA, sentences judged acceptable or not, from its public zip.

Source: A. Warstadt, A. Singh, S. Bowman, "Neural network acceptability judgments", TACL 2019.
"""

import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from leaklab.records.errors import UserError

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
