"""All files below a folder, behind links to folders too: results and runs may lie on another disk."""

import os
from collections.abc import Iterator
from pathlib import Path


def files_below(folder: Path, closed: bool = True) -> Iterator[Path]:
    """Yield every file below a folder, in order, each as it is called from there; nothing where there is no folder.

    Links to folders are followed, a folder that holds itself by a link only once.

    Args:
        folder: where to begin.
        closed: whether a folder that may not be read is an error; without it, it holds nothing.

    Raises:
        OSError: a folder may not be read.
    """
    yield from _files(folder, (), closed)


def _files(folder: Path, around: tuple[tuple[int, int], ...], closed: bool) -> Iterator[Path]:
    try:
        found = folder.stat()
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError:
        if closed:
            raise
        return
    here = found.st_dev, found.st_ino
    if here in around:
        return
    for entry in entries:
        path = folder / entry.name
        if entry.is_dir():
            yield from _files(path, (*around, here), closed)
        elif entry.is_file():
            yield path
