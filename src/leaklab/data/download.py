"""One file from outside: checked before anything reads it, downloaded if need be.

A download appears under its name only when it is complete and has its checksum. Own code rather than pooch: that says
neither the size of what came nor what the user should do, keeps no file from a power cut, and shows no progress through
a loop; to map its errors and those of requests to one line took more than is here.
"""

import hashlib
import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from leaklab.data.catalog import OfficialFile, SourceFile
from leaklab.records.errors import UserError
from leaklab.records.files import atomic, sha256

TIMEOUT_SECONDS = 60
CHUNK_BYTES = 1 << 20
# some of the servers refuse clients that do not introduce themselves
HEADERS = {"User-Agent": "leaklab (research software)"}

Track = Callable[[Iterable[bytes], int, str], Iterable[bytes]]


class NotReceivedError(Exception):
    """There is no network, or the server refuses; the text is the reason, in one line."""


def untracked(chunks: Iterable[bytes], total: int, label: str) -> Iterable[bytes]:
    """Show no progress."""
    return chunks


def download(file: OfficialFile, path: Path, advice: str, track: Track = untracked) -> None:
    """Download ``file`` to ``path``.

    An interrupted download leaves nothing behind and can simply be started again.

    Args:
        file: its catalog entry.
        path: where it shall lie.
        advice: what the user should do if it cannot be had; ends the error message.
        track: shows the progress of a loop over chunks (iterable, total, label); called if the length is known.

    Raises:
        UserError: no network, the server refuses, or what arrives is another file.
    """
    again = f"run the same command again, or {advice}"
    try:
        with atomic(path) as temporary:
            with temporary.open("wb") as handle:
                handle.writelines(receive(file.url, label=path.name, track=track))
            verify(temporary, file, f"this is what {file.url} sent; {again}")
    except NotReceivedError as reason:
        raise UserError(f"cannot download {file.url} ({reason}): allow network access and {again}") from None


def receive(url: str, seconds: float = TIMEOUT_SECONDS, label: str = "", track: Track = untracked) -> Iterator[bytes]:
    """Yield what an address sends, unchecked; a server may be silent for some seconds.

    Raises:
        NotReceivedError: it cannot be had now.
    """
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=HEADERS), timeout=seconds) as answer:
            received = iter(lambda: answer.read(CHUNK_BYTES), b"")
            length = _length(answer.headers.get("Content-Length"))
            yield from track(received, -(-length // CHUNK_BYTES), f"download {label}") if length else received
    except (OSError, http.client.HTTPException) as error:
        raise NotReceivedError(" ".join(str(_reason(error)).split()) or type(error).__name__) from None


def _reason(error: Exception) -> object:
    """Return what went wrong without the words that urllib puts around it; an HTTP error keeps its code."""
    if isinstance(error, urllib.error.URLError) and not isinstance(error, urllib.error.HTTPError):
        return error.reason
    return error


def _length(said: str | None) -> int:
    """Return how many bytes a server says it sends, 0 where it says nothing of use: the checksum decides, not this."""
    try:
        return max(0, int(said or 0))
    except ValueError:
        return 0


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
