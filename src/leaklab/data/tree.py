"""Folders that users made: all files below one, through links, with names that may be any bytes."""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leaklab.records.errors import UserError

BYTES = "surrogateescape"
"""How names become text and back, so that those that are no UTF-8 stay what they are."""
FIRST_OF_BYTES = 0xDC00
"""Python writes a byte that is no UTF-8 as the character with this number more."""


def shown(name: str | Path) -> str:
    r"""Return a name with what cannot be written or printed as its number: ``M\xfcller`` of a Latin-1 name."""
    return "".join(one if one.isprintable() else _escaped(one) for one in str(name))


def _escaped(one: str) -> str:
    return f"\\x{ord(one) - FIRST_OF_BYTES:02x}" if re.match("[\udc80-\udcff]", one) else repr(one)[1:-1]


def nothing(path: Path) -> bool:
    """Leave no folder out."""
    return False


def below(folder: Path, leave: Callable[[Path], bool] = nothing) -> Iterator[Path]:
    """Yield all that lies in or below a folder and is no folder, in no order; links are followed.

    Args:
        folder: where to look.
        leave: tells which folders are yielded themselves, and not what is in them.

    Raises:
        UserError: a folder cannot be opened, or a link leads back to a folder that it lies in.
    """
    waiting: list[tuple[Path, frozenset[tuple[int, int]]]] = [(folder, frozenset())]
    while waiting:
        place, above = waiting.pop()
        try:
            about, paths = place.stat(), list(place.iterdir())
        except OSError as error:
            raise UserError(f"{shown(place)} cannot be opened ({error.strerror}): make it readable") from None
        if not os.access(place, os.X_OK):  # it tells names, and nothing of what they stand for
            raise UserError(f"{shown(place)} cannot be opened (Permission denied): make it readable")
        own = about.st_dev, about.st_ino
        if own in above:
            raise UserError(f"{shown(place)} is a link to a folder that it lies in, without end: delete the link")
        for path in paths:
            # of os.path, which takes what cannot be looked at for no folder
            if os.path.isdir(path) and not leave(path):  # noqa: PTH112
                waiting.append((path, above | {own}))
            else:
                yield path


# What is told of them.


@dataclass
class Told:
    """Kinds of files with how many there are and the name of one, the first in alphabetical order."""

    kinds: dict[str, tuple[int, str]] = field(default_factory=dict)

    def add(self, kind: str, name: str) -> None:
        """Count a file."""
        count, first = self.kinds.get(kind, (0, name))
        self.kinds[kind] = count + 1, min(first, name)

    def card(self) -> dict[str, dict[str, Any]]:
        """Return what the card of a data set says."""
        return {kind: {"count": count, "example": shown(name)} for kind, (count, name) in sorted(self.kinds.items())}
