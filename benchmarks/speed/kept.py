"""What a benchmark has measured already, workload by workload, from which it goes on where it was stopped.

A workload is kept whole or not at all: its contestants took turns, and only so are they compared.
"""

import hashlib
import pickle
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from leaklab.records.files import write_bytes

FOLDER = Path(".snakemake")
SOURCES = ("src", "benchmarks/*.py", "benchmarks/requirements")


class Kept:
    """Results of one benchmark by one state of our code with some options on one machine."""

    def __init__(self, name: str, options: Sequence[str], machine: str, folder: Path = FOLDER) -> None:
        """Name the file; the code is that of the working tree here."""
        parts = [*options, machine, _git("ls-files", "--stage"), _git("diff", "HEAD")]
        key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
        self.file = folder / f"bench-{name}-{key}.pickle"

    def read(self) -> Any:
        """Return what was kept; None where there is nothing, or nothing that can be read."""
        with suppress(OSError, EOFError, pickle.UnpicklingError, AttributeError, ImportError):
            return pickle.loads(self.file.read_bytes())  # noqa: S301  our own, in a folder of the checkout
        return None

    def write(self, results: Any) -> None:
        """Keep results."""
        write_bytes(self.file, pickle.dumps(results))

    def end(self) -> None:
        """Forget them: the page is written."""
        self.file.unlink(missing_ok=True)


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words, "--", *SOURCES], capture_output=True, text=True, check=False)
    return done.stdout
