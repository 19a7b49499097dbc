"""What was worked out once and is kept as plain data for the processes to come, in files that anybody may lose.

A file says in its first line what decides its content (``key``: code, files, versions) and the hash of the content.
What is of another key, or damaged, counts as nothing and is made anew; a folder that cannot be written costs time.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from leaklab.records.errors import UserError
from leaklab.records.files import write_text

KEPT = Path(".snakemake")
"""Folder of a checkout for what can be made again."""
PACKAGE_FOLDER = Path(__file__).parents[1]


def read_kept_json(file: Path, key: str) -> Any:
    """Return what is kept under the key; None where nothing is."""
    with suppress(OSError, ValueError, RecursionError):
        head, _, text = file.read_text(encoding="utf-8").partition("\n")
        if head == _head(key, text):
            return json.loads(text)
    return None


def keep_json(file: Path, key: str, content: Any) -> None:
    """Keep a content of JSON's types in the place of what the file held."""
    # text that UTF-8 cannot hold, or numbers that JSON cannot, are a ValueError
    with suppress(OSError, UserError, TypeError, ValueError, RecursionError):
        text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        write_text(file, f"{_head(key, text)}\n{text}")


class KeptResults:
    """What a dear function returned, by its arguments as JSON; results are of JSON's types.

    Args:
        file: where they are kept.
        key: of all that decides them beside the arguments.
    """

    def __init__(self, file: Path, key: str) -> None:
        self._file, self._key, self._new = file, key, False
        self._known: dict[str, Any] = read_kept_json(file, key) or {}

    def of(self, arguments: Any, compute: Callable[[], Any]) -> Any:
        """Return what is known for the arguments, or what is computed now."""
        name = json.dumps(arguments)
        if name not in self._known:
            self._known[name], self._new = compute(), True
        return self._known[name]

    def save(self) -> None:
        """Keep what is new."""
        if self._new:
            keep_json(self._file, self._key, {**(read_kept_json(self._file, self._key) or {}), **self._known})
            self._new = False


def key_of(parts: Iterable[object]) -> str:
    """Return a key for texts, which differs where one of them does, or their order."""
    return hashlib.sha256(repr(list(map(str, parts))).encode(errors="surrogatepass")).hexdigest()


@cache
def hash_of_package() -> str:
    """Return a hash of our sources as they were when this process first asked."""
    return hash_of_sources(PACKAGE_FOLDER)


def hash_of_sources(folder: Path) -> str:
    """Return a hash of the names and bytes of all modules below a folder."""
    found = hashlib.sha256()
    for name in sorted(_modules_below(str(folder))):
        content = Path(name).read_bytes()
        found.update(f"{os.path.relpath(name, folder)}\0{len(content)}\0".encode(errors="surrogateescape"))
        found.update(content)
    return found.hexdigest()


def _modules_below(folder: str) -> Iterator[str]:
    for place, _, files in os.walk(folder):
        yield from (f"{place}{os.sep}{name}" for name in files if name.endswith(".py"))


def _head(key: str, text: str) -> str:
    return f"{key} {hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()}"
