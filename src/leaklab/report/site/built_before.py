"""Whether the report of a scale is already what this checkout would build: nothing that it is built from has changed.

To compare thousands of files takes their sizes and times, as Snakemake and make do; to build the pages takes seconds.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from leaklab.records.config import Scale
from leaklab.records.files import read_json, write_json
from leaklab.records.plugins import PACKAGE_FOLDER
from leaklab.records.recorder import git_state

KEPT = Path(".snakemake")
READ = ("config", "docs", "results/scoreboard", "mine")
"""Folders that pages of every scale are built from, beside its results, its figures and the code."""
RUNS, REPORT = Path("results/runs"), "report"


@dataclass(frozen=True)
class Found:
    """A report.

    Attributes:
        page: its first page.
        absent_records: records of runs and data sets that its scale has and this checkout lacks; 0 for a report of
            the workflow.
    """

    page: Path
    absent_records: int = 0


def built_before(scale: Scale) -> Found | None:
    """Return the report that was built here of the files as they are now; None where it has to be built."""
    kept, page = _kept(scale), Path("results", scale, REPORT, "index.html")
    if not (kept.is_file() and page.is_file()):
        return None
    known = read_json(kept)
    if known != {**known, "made_from": _made_from(scale), "pages": _digest(_below(page.parent))}:
        return None
    return Found(page, known["absent_records"])


def remember(scale: Scale, found: Found) -> None:
    """Keep what a report was built of; where nothing can be kept it is built again."""
    with suppress(OSError):
        pages = _digest(_below(found.page.parent))
        told = {"made_from": _made_from(scale), "pages": pages, "absent_records": found.absent_records}
        write_json(_kept(scale), told)


def _kept(scale: Scale) -> Path:
    return KEPT / f"report-{scale}.json"


def _made_from(scale: Scale) -> str:
    """Return a text that is another one after any change of code, configuration, results, figures or records."""
    own = Path("results", scale)
    files = [
        *_below(PACKAGE_FOLDER),
        *(one for folder in READ for one in _below(Path(folder))),
        *(one for one in _below(own) if not one[0].startswith(f"{own / REPORT}{os.sep}")),
        *_below(Path("figures", scale)),
        *(one for one in _below(RUNS) if one[0].endswith("run.json")),
    ]
    return _digest([*files, git_state(), version("leaklab")])


def _digest(told: Iterable[Any]) -> str:
    return hashlib.sha256(repr(sorted(map(repr, told))).encode()).hexdigest()


def _below(folder: Path) -> Iterator[tuple[str, int, int]]:
    """Yield path, size and time of each file below a folder; nothing where there is none."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _below(Path(entry.path))
            elif entry.is_file():
                found = entry.stat()
                yield entry.path, found.st_size, found.st_mtime_ns
