"""Times of files: one in the future, of a clock that was wrong once, would fail every job that reads the file."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PLACES = (Path("config"), Path("data/prepared"), Path("figures"), Path("results"))
TOLERANCE = 5.0
"""Seconds by which the clocks of this machine and of its file server may differ."""


def bring_to_now(root: Path = Path()) -> str:
    """Give files with a time in the future that of now: Snakemake fails a job whose output is older than an input.

    Nothing is made again for it, as Snakemake compares what is newer by content. A file that may not be touched keeps
    its time.

    Returns:
        what was done, for the user; empty where there was nothing to do.
    """
    late, changed = time.time() + TOLERANCE, []
    for path in (path for place in PLACES for path in _files(root / place)):
        with suppress(OSError):  # it has gone meanwhile, or belongs to somebody else
            if path.stat().st_mtime > late:
                os.utime(path)
                changed.append(path)
    if not changed:
        return ""
    return f"{len(changed)} files had a time in the future, which is that of now ({changed[0]})"


def _files(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder):
        yield from (Path(place, name) for name in names)
