"""One file from outside: checked before anything reads it, downloaded if need be.

A download appears under its name only when it is complete and has its checksum. Own code rather than pooch: that says
neither the size of what came nor what the user should do, keeps no file from a power cut, and shows no progress through
a loop; to map its errors and those of requests to one line took more than is here.
"""

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pydantic import Field

from leaklab.data.catalog import OfficialFile, SourceFile
from leaklab.data.tree import BYTES, below
from leaklab.records.config import CONFIG, load_config, parse, read_yaml
from leaklab.records.errors import UserError
from leaklab.records.files import atomic, sha256, write_text
from leaklab.records.record import Record

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
        _note_source(path, file.url)
    except NotReceivedError as reason:
        raise UserError(f"cannot download {file.url} ({reason}): allow network access and {again}") from None


def _note_source(path: Path, url: str) -> None:
    """Write ``NAME.dvc`` beside a download: by it DVC keeps the file by its checksum, and knows where it is from.

    No import of DVC's, which asks the source at every turn: data are the same without a network.
    """
    lines = [f"- md5: {_md5(path)}", f"  size: {path.stat().st_size}", "  hash: md5", f"  path: {path.name}"]
    write_text(path.with_name(f"{path.name}.dvc"), "\n".join(["outs:", *lines, "meta:", f"  source: {url}", ""]))


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
    """Return one line per file in or below a folder, sorted by name: its SHA-256, two blanks, its relative path.

    Links are followed; a byte of a name that is no UTF-8 stands there as Python's ``surrogateescape`` has it.
    """
    names = sorted(path.relative_to(folder).as_posix() for path in below(folder) if path.is_file())
    return "".join(f"{sha256(folder / name)}  {name}\n" for name in names)


def _tree(folder: Path, advice: str) -> str:
    content = listing(folder)
    if not content:
        raise UserError(f"{folder} is empty: {advice}")
    return hashlib.sha256(content.encode(errors=BYTES)).hexdigest()


def _md5(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


# Pretrained weights: mirror first, then ``data/weights``, then the official source; never used unchecked.

REGISTRY = Path("config/weights.yaml")
LOCAL = Path("data/weights")
TIMEOUT_SECONDS_OF_WEIGHTS = 20


class WeightsUnavailableError(UserError):
    """The weights are neither on this machine nor to be had from their source now."""


class WeightsFile(Record):
    """One file that holds the weights; without a ``url`` it is only looked for, never downloaded.

    Attributes:
        sha256: all 64 digits, or the first eight where no more is published, which then stand in the file's name.
    """

    path: str
    sha256: str = Field(pattern="^([0-9a-f]{8}|[0-9a-f]{64})$")
    url: str | None = Field(default=None, pattern="^https://")


class Weights(Record):
    """A pretrained network and the files that hold it; any one of them is enough.

    Attributes:
        mean: of each channel of its inputs, on the [0, 1] scale.
        std: deviations, likewise; inputs are (x - mean) / std.
        renamed: part of a parameter's name in the file -> what stands there in ours.
    """

    title: str
    licence: str
    citation: str
    files: tuple[WeightsFile, ...] = Field(min_length=1)
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    renamed: dict[str, str] = Field(default_factory=dict)


def describe_weights(name: str) -> Weights:
    """Return the entry of ``config/weights.yaml``.

    Raises:
        UserError: there is no such entry.
    """
    entries = read_yaml(REGISTRY)
    if name not in entries:
        raise UserError(f"{REGISTRY} has no weights '{name}': choose from {', '.join(sorted(entries))}")
    return parse(Weights, entries[name], f"{REGISTRY}: {name}")


def weights_path(name: str) -> Path:
    """Return a file with the weights called ``name``, checked by its SHA-256.

    Raises:
        WeightsUnavailableError: no copy is at hand and none can be downloaded now.
        UserError: a copy is damaged, or the name is unknown.
    """
    files = describe_weights(name).files
    found = _first_copy(files)
    return found if found is not None else _download(name, files)


def why_unavailable(name: str) -> str | None:
    """Return why the weights called ``name`` cannot be had, or None; fetches them if need be.

    Raises:
        UserError: a copy is damaged, or the name is unknown.
    """
    try:
        weights_path(name)
    except WeightsUnavailableError as error:
        return str(error)
    return None


def _first_copy(files: Iterable[WeightsFile]) -> Path | None:
    for file in files:
        for folder in _folders():
            path = folder / file.path
            if path.is_file():
                _check(path, file, path)
                return path
    return None


def _folders() -> list[Path]:
    mirror = os.environ.get("LEAKLAB_MIRROR") or (load_config().mirror if CONFIG.exists() else None)
    return [Path(mirror) / "weights", LOCAL] if mirror else [LOCAL]


def _check(path: Path, file: WeightsFile, shown: Path | str) -> None:
    found = sha256(path)
    if not found.startswith(file.sha256):
        raise UserError(
            f"{shown} is damaged (sha256 {found[:12]}..., not {file.sha256[:12]}...): delete it and run again"
        )


def _download(name: str, files: Iterable[WeightsFile]) -> Path:
    for file in files:
        if file.url is not None:
            return _fetch(file, file.url)
    wanted = " or ".join(file.path for file in files)
    raise WeightsUnavailableError(f"weights '{name}' are not at hand: put {wanted} into {LOCAL}/ or set LEAKLAB_MIRROR")


def _fetch(file: WeightsFile, url: str) -> Path:
    target = LOCAL / file.path
    try:
        with atomic(target) as temporary:
            with temporary.open("wb") as handle:
                handle.writelines(receive(url, TIMEOUT_SECONDS_OF_WEIGHTS))
            _check(temporary, file, url)
        _note_source(target, url)
    except NotReceivedError as reason:
        raise WeightsUnavailableError(
            f"{url} cannot be downloaded ({reason}): put it into {LOCAL}/ by hand or set LEAKLAB_MIRROR"
        ) from None
    return target
