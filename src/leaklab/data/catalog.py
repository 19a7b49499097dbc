"""The typed form of ``config/datasets.yaml``: what each dataset is and where its files come from.

The workflow reads the catalog in every process, so this module stays light: no torch, no readers.
"""

import re
from pathlib import Path, PurePosixPath
from typing import Annotated, ClassVar, Generic, TypeVar

from pydantic import AfterValidator, Field, RootModel, model_validator

from leaklab.records.bounds import Count
from leaklab.records.config import parse, read_yaml
from leaklab.records.errors import UserError
from leaklab.records.files import sha256
from leaklab.records.record import Component, Record

CATALOG = Path("config/datasets.yaml")


def _inside(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or PurePosixPath(path).is_absolute() or ".." in parts or not path.isprintable():
        raise ValueError("must be the relative path of a file, without '..'")
    return path


RelativePath = Annotated[str, AfterValidator(_inside)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Md5 = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Url = Annotated[str, Field(pattern=r"^https?://")]


class MirrorFile(Record):
    """A file of the mirror: ``path`` is relative to the mirror's root.

    Attributes:
        sha256: null where nobody publishes one, because users make the files themselves; ``path`` may then be a folder,
            and the checksum of what was found is recorded instead of verified.
    """

    path: RelativePath
    sha256: Sha256 | None


class PackageFile(Record):
    """A file inside an installed package: ``path`` is relative to the folder of the import name ``package``."""

    package: str
    path: RelativePath
    sha256: Sha256


class OfficialFile(Record):
    """A file of the official distribution: ``path`` is relative to the folder of downloads.

    Attributes:
        md5: given instead of ``sha256`` where the publisher's md5 is all that is known.
    """

    url: Url
    path: RelativePath
    sha256: Sha256 | None = None
    md5: Md5 | None = None

    @model_validator(mode="after")
    def _one_checksum(self) -> "OfficialFile":
        if (self.sha256 is None) == (self.md5 is None):
            raise ValueError("give either sha256 or md5")
        return self


class OwnFile(Record):
    """A file of the user's own: ``path`` is relative to the folder in which Snakemake is called."""

    path: RelativePath
    sha256: Sha256


SourceFile = MirrorFile | PackageFile | OfficialFile | OwnFile
File = TypeVar("File", MirrorFile, PackageFile, OfficialFile, OwnFile)


class Source(Record, Generic[File]):
    """One way to get a dataset.

    Attributes:
        reader: decodes the files (``data/readers``).
        files: the files by the role that they play for the reader.
        substitute: what is missing compared with the published dataset, in one sentence; None if it is complete.
        num_classes: given where it differs from the published dataset.
    """

    reader: Component
    files: dict[str, File] = Field(min_length=1)
    substitute: str | None = None
    num_classes: Count | None = None


class Entry(Record):
    """A dataset; its sources are tried in the order mirror, official, or it is ``embedded`` in a package, or ``own``.

    Attributes:
        instructions: how a user comes by files that nobody publishes as they are needed; part of a sentence.
    """

    LATER: ClassVar[frozenset[str]] = frozenset({"own"})

    title: str
    num_classes: Count
    class_names: tuple[str, ...] = ()
    licence: str
    citation: str
    instructions: str = ""
    embedded: Source[PackageFile] | None = None
    mirror: Source[MirrorFile] | None = None
    official: Source[OfficialFile] | None = None
    own: Source[OwnFile] | None = None

    @property
    def sources(self) -> tuple[Source[PackageFile] | Source[MirrorFile] | Source[OfficialFile] | Source[OwnFile], ...]:
        """All that there are."""
        return tuple(one for one in (self.embedded, self.mirror, self.official, self.own) if one)

    @model_validator(mode="after")
    def _has_a_source(self) -> "Entry":
        if not self.sources:
            raise ValueError("needs a source: embedded, mirror, official or own")
        if self.mirror and not self.instructions and any(file.sha256 is None for file in self.mirror.files.values()):
            raise ValueError("needs instructions, because a checksum is null: how does a user come by the files?")
        if self.class_names and len(self.class_names) != self.num_classes:
            raise ValueError(f"has {len(self.class_names)} class_names for {self.num_classes} classes")
        return self


NAME = r"[a-z0-9]+(-[a-z0-9]+)*"
Name = Annotated[str, Field(pattern=rf"^{NAME}$")]


class Catalog(RootModel[dict[Name, Entry]]):
    """All data sets by name: small letters, digits and dashes, as files are called after them."""


def load_catalog(path: Path = CATALOG) -> dict[str, Entry]:
    """Read and check the catalog.

    Args:
        path: relative to the project's root, where every step runs.

    Raises:
        UserError: missing, not YAML, or not as the models above say; the message names the key.
    """
    return parse(Catalog, read_yaml(path), path).root


def find_entry(name: str, catalog: dict[str, Entry]) -> Entry:
    """Return the dataset called ``name``.

    Raises:
        UserError: with the names that exist.
    """
    if (plain := GUEST.fullmatch(name)) is not None:
        return _own_entry(plain["name"], name)
    if name not in catalog:
        raise UserError(f"unknown dataset '{name}': choose from {', '.join(catalog)}, or add it to {CATALOG}")
    return catalog[name]


# Data sets of users: files in mine/data. Items of theirs name them, and runs with their digest, so that of other images
# they are other runs.

OWN = Path("mine/data")
GUEST = re.compile(rf"(?P<name>{NAME})-guest-[0-9a-f]{{12}}")


def own_datasets() -> dict[str, str]:
    """Return the name of each file of ``mine/data`` -> the name with its digest.

    Raises:
        UserError: a name that no run can have, or one of the catalog.
    """
    files = sorted(OWN.glob("*.npz"))
    known = load_catalog() if files else {}
    for file in files:
        if not re.fullmatch(NAME, file.stem):
            raise UserError(f"{file}: data sets are called by small letters, digits and dashes: rename the file")
        if file.stem in known:
            raise UserError(f"{file} and {CATALOG} both offer the data set '{file.stem}': rename the file")
    return {file.stem: f"{file.stem}-guest-{sha256(file)[:12]}" for file in files}


def _own_entry(name: str, key: str) -> Entry:
    file = OWN / f"{name}.npz"
    found = sha256(file) if file.is_file() else ""
    if not key.endswith(f"-{found[:12]}"):
        raise UserError(f"{file} is not what it was when this was planned: run the same command again")
    own = Source[OwnFile](
        reader=Component(name="arrays"), files={"arrays": OwnFile(path=file.as_posix(), sha256=found)}
    )
    # its classes are counted when it is read (``prepare.py``)
    return Entry(title=f"{name} ({file})", num_classes=1, licence="your own", citation="none", own=own)


# The text data sets: ``config/texts.yaml``, typed like ``config/datasets.yaml`` and as light.

TEXTS = Path("config/texts.yaml")


def find_text(name: str, path: Path = TEXTS) -> Entry:
    """Return the text data set called ``name``.

    Raises:
        UserError: there is none, or the catalog is wrong.
    """
    known = load_catalog(path)
    if name not in known:
        raise UserError(f"unknown text data set '{name}': choose from {', '.join(known)}, or add it to {path}")
    return known[name]
