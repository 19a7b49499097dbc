"""Finding a dataset's files: the mirror, then what was downloaded before, then the official source.

Files are read where they lie. Nothing touches the network while a file is in the mirror or among the downloads, and
nothing reads a file whose checksum differs from the catalog's. Where nobody publishes a checksum, that of the file or
folder in the mirror is recorded instead.
"""

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path

from leaklab.data.catalog import Entry, MirrorFile, OfficialFile, PackageFile, Source
from leaklab.data.download import Track, download, untracked, verify
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
        source: ``mirror`` (and whether it could not be verified), the official address, or ``package <name>``.
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

    source: Source[MirrorFile] | Source[PackageFile] | Source[OfficialFile]
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
