"""Folders that jobs are to write into and may not."""

import os
from collections.abc import Iterable
from pathlib import Path

from leaklab.records.errors import UserError


def refuse_closed_folders(outputs: Iterable[object]) -> None:
    """Refuse to start jobs whose outputs could not be written: Snakemake would end in the midst of the others.

    Args:
        outputs: paths of all files that are to be made.

    Raises:
        UserError: a folder may not be written; it names the first of them.
    """
    folders = {_nearest(Path(str(path)).parent) for path in outputs}
    closed = sorted(str(folder) for folder in folders if not os.access(folder, os.W_OK | os.X_OK))
    if closed:
        more = f" and {len(closed) - 1} more folders" if closed[1:] else ""
        raise UserError(
            f"{closed[0]}{more} may not be written: give yourself the right to (chmod u+w), or free the place of a "
            "file system that is mounted read-only, and run the same command again; nothing was started"
        )


def _nearest(folder: Path) -> Path:
    """Return the folder, or the one that is there and in which it would be made."""
    while not folder.exists():
        folder = folder.parent
    return folder
