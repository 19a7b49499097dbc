"""Finding a dataset's files: the mirror, then what was downloaded before, then the official source.

Files are read where they lie. Nothing touches the network while a file is in the mirror or among the downloads, and
nothing reads a file whose checksum differs from the catalog's. Where nobody publishes a checksum, that of the file or
folder in the mirror is recorded instead.
"""

import http.client
import importlib.util
import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from leaklab.data.catalog import Entry, MirrorFile, OfficialFile, OwnFile, PackageFile, Source
from leaklab.data.download import HEADERS, Track, download, untracked, verify
from leaklab.records.errors import UserError

MIRROR_VARIABLE = "LEAKLAB_MIRROR"
DOWNLOADS = Path("data/raw")
VERIFIED, UNVERIFIED = "mirror", "mirror, as it was there: no checksum is published"


@dataclass(frozen=True)
class Found:
    """A file that is there and has its checksum.

    Attributes:
        path: where it lies; a folder where the catalog lists one.
        listed: its path in the catalog.
        sha256: of the file, or of a folder's ``download.py::listing``.
        source: ``mirror`` (and whether it could not be verified), the official address, ``package <name>``, or
            ``own file``.
    """

    path: Path
    listed: str
    sha256: str
    source: str

    def card(self) -> dict[str, str]:
        """Return what the dataset's card says about the file: no folder of this machine."""
        return {"path": self.listed, "sha256": self.sha256, "source": self.source}


@dataclass(frozen=True)
class Fetched:
    """The source that was used and its files by role, in the catalog's order."""

    source: Source[MirrorFile] | Source[PackageFile] | Source[OfficialFile] | Source[OwnFile]
    files: dict[str, Found]

    def paths(self) -> dict[str, Path]:
        """Return where the files lie, by role."""
        return {role: found.path for role, found in self.files.items()}


def mirror_folder() -> Path | None:
    """Return the folder that ``LEAKLAB_MIRROR`` names, or None if it is not set.

    Raises:
        UserError: it names no folder.
    """
    name = os.environ.get(MIRROR_VARIABLE)
    if not name:
        return None
    if not Path(name).is_dir():
        raise UserError(f"{MIRROR_VARIABLE}={name} is not a folder: correct it or unset it")
    return Path(name)


def fetch(entry: Entry, mirror: Path | None, downloads: Path = DOWNLOADS, track: Track = untracked) -> Fetched:
    """Return the dataset's verified files.

    A mirror that has none of the files is passed over; one that has only some of them is an error, because results
    must not depend on an accident.

    Args:
        entry: the dataset.
        mirror: root of the mirror, see ``mirror_folder``.
        downloads: folder in which official files are kept.
        track: shows the progress of a download.

    Raises:
        UserError: a file is missing, truncated or corrupt, or cannot be downloaded; says what to do.
    """
    if entry.embedded:
        return Fetched(entry.embedded, {role: _packaged(file) for role, file in entry.embedded.files.items()})
    if entry.own:
        return Fetched(entry.own, {role: _of_user(file) for role, file in entry.own.files.items()})
    if mirror and entry.mirror and any((mirror / file.path).exists() for file in entry.mirror.files.values()):
        advice = _how_to_restore(entry)
        return Fetched(entry.mirror, {role: _mirrored(f, mirror, advice) for role, f in entry.mirror.files.items()})
    advice = _where_to_put(entry, mirror)
    if not entry.official:
        first = f"{entry.instructions}; then " if entry.instructions else ""
        raise UserError(f"{entry.title} has no official download: {first}{advice}")
    files = {role: _official(file, downloads, advice, track) for role, file in entry.official.files.items()}
    return Fetched(entry.official, files)


def _packaged(file: PackageFile) -> Found:
    spec = importlib.util.find_spec(file.package)
    advice = f"install the version of {file.package} that requirements.lock names"
    if spec is None or spec.origin is None:
        raise UserError(f"the package {file.package} is missing: {advice}")
    path = Path(spec.origin).parent / file.path
    return Found(path, file.path, verify(path, file, advice), f"package {file.package}")


def _of_user(file: OwnFile) -> Found:
    return Found(Path(file.path), file.path, verify(Path(file.path), file, "run the same command again"), "own file")


def _mirrored(file: MirrorFile, mirror: Path, advice: str) -> Found:
    path = mirror / file.path
    return Found(path, file.path, verify(path, file, advice), VERIFIED if file.sha256 else UNVERIFIED)


def _official(file: OfficialFile, downloads: Path, advice: str, track: Track) -> Found:
    path = downloads / file.path
    if not path.exists():
        download(file, path, f"put it at {path}, or {advice}", track)
    checksum = verify(path, file, "delete it and run the same command again to download it anew")
    return Found(path, file.path, checksum, file.url)


def _how_to_restore(entry: Entry) -> str:
    if not entry.official:
        return f"restore it there{entry.instructions and f' ({entry.instructions})'}"
    return f"restore it there, or unset {MIRROR_VARIABLE} to use the official source"


def _where_to_put(entry: Entry, mirror: Path | None) -> str:
    if not entry.mirror:
        return "get it by hand: no mirror holds it"
    needed = next(iter(entry.mirror.files.values())).path
    missing = f" ({mirror} has none of the files)" if mirror else ""
    return f"set {MIRROR_VARIABLE} to a folder that has {needed}{missing}"


# Whether hosts answer, in a few seconds at most.


TRY_SECONDS = 4.0
# what a host or the proxy before it says when the file cannot be had through it
REFUSALS = {404, 407, 410, 502, 503, 504}


def reachable(address: str) -> bool:
    """Return whether a request for the head of a file is answered; any proxy of the environment is used."""
    request = urllib.request.Request(address, headers=HEADERS, method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=TRY_SECONDS):
            return True
    except urllib.error.HTTPError as error:
        return error.code not in REFUSALS
    except (OSError, http.client.HTTPException, ValueError):
        return False


def answering(addresses: Iterable[str], reach: Callable[[str], bool] = reachable) -> set[str]:
    """Return the addresses whose hosts answer: one try for each host, all at once.

    Looking up a name may hang beyond any timeout where there is no network, so nobody waits for a slow try.
    """
    by_host: dict[str, list[str]] = {}
    for address in addresses:
        by_host.setdefault(urlsplit(address).netloc, []).append(address)
    answered: set[str] = set()

    def attempt(host: str, address: str) -> None:
        if reach(address):
            answered.add(host)

    tries = [
        threading.Thread(target=attempt, args=(host, own[0]), daemon=True) for host, own in sorted(by_host.items())
    ]
    for one in tries:
        one.start()
    limit = time.monotonic() + TRY_SECONDS + 1
    for one in tries:
        one.join(max(0.0, limit - time.monotonic()))
    return {address for host in set(answered) for address in by_host[host]}
