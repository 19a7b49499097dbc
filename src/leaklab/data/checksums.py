"""Checking a file against the checksum in the catalog before anything reads it."""

import hashlib
from pathlib import Path

from leaklab.data.catalog import OfficialFile, SourceFile
from leaklab.records.errors import UserError
from leaklab.records.files import sha256


def verify(path: Path, expected: SourceFile, advice: str) -> str:
    """Return the file's SHA-256 once it is known to be the file that the catalog means.

    Where the catalog has no checksum, what is there is taken; a folder has the checksum of ``listing``.

    Args:
        path: where the file lies.
        expected: its entry in the catalog, with a SHA-256, for some official files an MD5, or neither.
        advice: what the user should do if it is another file; ends the error message.

    Raises:
        UserError: the file is missing, unreadable, truncated or corrupt.
    """
    md5 = expected.md5 if isinstance(expected, OfficialFile) else None
    kind, wanted = ("md5", md5) if md5 else ("sha256", expected.sha256)
    try:
        if wanted is None and path.is_dir():
            return _tree(path, advice)
        found = _md5(path) if md5 else sha256(path)
    except FileNotFoundError:
        raise UserError(f"{path} is missing: {advice}") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): {advice}") from None
    if wanted is not None and found != wanted:
        size = path.stat().st_size
        raise UserError(f"{path} is truncated or corrupt ({size} bytes, {kind} {found}, expected {wanted}): {advice}")
    return sha256(path) if md5 else found


def listing(folder: Path) -> str:
    """Return one line per file in or below a folder, sorted by name: its SHA-256, two blanks, its relative path."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return "".join(f"{sha256(folder / name)}  {name}\n" for name in names)


def _tree(folder: Path, advice: str) -> str:
    content = listing(folder)
    if not content:
        raise UserError(f"{folder} is empty: {advice}")
    return hashlib.sha256(content.encode()).hexdigest()


def _md5(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
