"""What a benchmark has measured already, workload by workload, from which it goes on where it was stopped.

A workload is kept whole or not at all: its contestants took turns, and only so are they compared.
"""

import pickle
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from leaklab.records.files import write_bytes
from leaklab.records.kept_json import KEPT, hash_of_package, hash_of_sources, key_of

BENCHMARKS = Path(__file__).parents[1]
UNREADABLE = (OSError, EOFError, pickle.PickleError, AttributeError, ImportError, LookupError, TypeError, ValueError)


class Kept:
    """Results of one benchmark by one state of our code with some options on one machine."""

    def __init__(self, name: str, options: Sequence[str], machine: str, folder: Path = KEPT) -> None:
        """Name the file; the code is ours, that of all benchmarks, and the pins of their peers."""
        rooms = sorted(one for one in BENCHMARKS.iterdir() if one.is_dir() and not one.name.startswith("."))
        pins = sorted((BENCHMARKS / "requirements").iterdir())
        code = [hash_of_package(), *map(hash_of_sources, rooms), *(one.read_text(encoding="utf-8") for one in pins)]
        self.file = folder / f"bench-{name}-{key_of([*options, machine, *code])[:16]}.pickle"

    def read(self) -> Any:
        """Return what was kept; None where there is nothing, or nothing that can be read."""
        with suppress(*UNREADABLE):
            return pickle.loads(self.file.read_bytes())  # noqa: S301  our own, in a folder of the checkout
        return None

    def write(self, results: Any) -> None:
        """Keep results."""
        write_bytes(self.file, pickle.dumps(results))

    def end(self) -> None:
        """Forget them: the page is written."""
        self.file.unlink(missing_ok=True)
