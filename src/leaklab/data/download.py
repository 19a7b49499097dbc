"""Downloading one official file: it appears under its name only when it is complete and has its checksum."""

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from leaklab.data.catalog import OfficialFile
from leaklab.data.checksums import verify
from leaklab.records.errors import UserError
from leaklab.records.files import atomic

TIMEOUT_SECONDS = 60
CHUNK_BYTES = 1 << 20
# some of the servers refuse clients that do not introduce themselves
HEADERS = {"User-Agent": "leaklab (research software)"}

Track = Callable[[Iterable[bytes], int, str], Iterable[bytes]]


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
    with atomic(path) as temporary:
        with temporary.open("wb") as handle:
            for chunk in _chunks(file.url, path.name, advice, track):
                handle.write(chunk)
        verify(temporary, file, f"this is what {file.url} sent; run the same command again, or {advice}")


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


def _chunks(url: str, label: str, advice: str, track: Track) -> Iterator[bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=HEADERS), timeout=TIMEOUT_SECONDS) as answer:
            received = iter(lambda: answer.read(CHUNK_BYTES), b"")
            length = _length(answer.headers.get("Content-Length"))
            yield from track(received, -(-length // CHUNK_BYTES), f"download {label}") if length else received
    except (OSError, http.client.HTTPException) as error:
        reason = " ".join(str(_reason(error)).split()) or type(error).__name__
        raise UserError(
            f"cannot download {url} ({reason}): allow network access and run the same command again, or {advice}"
        ) from None
