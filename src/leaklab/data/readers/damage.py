"""Damaged archives and pictures: whatever their parsers raise becomes one line that names the file."""

import csv
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image

from leaklab.records.errors import UserError

# what tarfile, zipfile, gzip, lzma, csv, Pillow and numpy raise about bytes that they cannot make sense of; running
# out of memory is none of them
DAMAGE = (
    ArithmeticError, AttributeError, EOFError, LookupError, OSError, RuntimeError, SyntaxError, TypeError, ValueError,
    csv.Error, lzma.LZMAError, struct.error, tarfile.TarError, zipfile.BadZipFile, zlib.error,
    Image.DecompressionBombError,
)  # fmt: skip
SHOWN = 100
ADVICE = "get the official file again"


@contextmanager
def reading(path: Path | str, advice: str = ADVICE) -> Iterator[None]:
    """Decode a file inside; what its parser stumbles over is told of that file.

    Args:
        path: of the file, as the user knows it.
        advice: what to do about it; ends the error message.

    Raises:
        UserError: the file is damaged or holds something else.
    """
    try:
        yield
    except DAMAGE as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())[:SHOWN]
        raise UserError(f"{path} cannot be read ({what}): {advice}") from None
