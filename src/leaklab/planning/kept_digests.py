"""Digests of code that another process found in the same sources.

Every process of Snakemake needs those of all its jobs, and to find them means to parse hundreds of files, which takes
seconds. What is kept counts for files of exactly the same content only, so it cannot be out of date. It is a help and
no record: a file that is damaged, or cannot be written, is done without.
"""

import atexit
import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from leaklab.records import code
from leaklab.records.definitions import PACKAGE
from leaklab.records.errors import UserError
from leaklab.records.files import write_json

FILE = Path(".snakemake/code-digests.json")


@dataclass
class KeptDigests:
    """The digests of some sources.

    Attributes:
        sources: hash of all modules of ours.
        file: where they are kept; a folder that is not there is not made.
        digests: by what they are of.
        new: whether there are some that the file lacks.
    """

    sources: str
    file: Path
    digests: dict[str, str] = field(default_factory=dict)
    new: bool = False

    @classmethod
    def load(cls, sources: str, file: Path) -> "KeptDigests":
        """Read what is kept for these sources; nothing where the file is of others or damaged."""
        found = cls(sources, file)
        with suppress(OSError, ValueError):
            content = json.loads(file.read_text(encoding="utf-8"))
            kept = content.get("digests") if isinstance(content, dict) and content.get("sources") == sources else {}
            if isinstance(kept, dict) and all(isinstance(value, str) for value in kept.values()):
                found.digests = kept
        return found

    def digest(self, step: str, plugins: Sequence[str] = (), loaded: Sequence[str] = ()) -> str:
        """Return ``records.code.digest`` of the same."""
        name = f"{' '.join((step, *plugins))} | {' '.join(loaded)}"
        if name not in self.digests:
            self.digests[name], self.new = code.digest(step, plugins, loaded), True
        return self.digests[name]

    def save(self) -> None:
        """Keep what is new, beside what another process has kept meanwhile."""
        if self.new and self.file.parent.is_dir():
            every = {**self.load(self.sources, self.file).digests, **self.digests}
            with suppress(OSError, UserError):
                write_json(self.file, {"sources": self.sources, "digests": every})


@cache
def kept_digests() -> KeptDigests:
    """Return those of the sources that are here, which are kept when the process ends."""
    found = KeptDigests.load(hash_of_sources(code.SOURCE / PACKAGE), Path.cwd() / FILE)
    atexit.register(found.save)
    return found


def hash_of_sources(folder: Path) -> str:
    """Return a hash of the names and bytes of all modules below a folder."""
    found = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        found.update(f"{file.relative_to(folder).as_posix()}\0{file.stat().st_size}\0".encode())
        found.update(file.read_bytes())
    return found.hexdigest()
