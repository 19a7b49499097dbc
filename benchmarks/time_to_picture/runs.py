"""One worker, one run; and the table of every single run, from which a contest goes on where it was stopped."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from speed.processes import FailedError, output

from leaklab.records.files import write_table
from time_to_picture.cases import Case
from time_to_picture.contestants import Attacker
from time_to_picture.workers.measuring import Job
from time_to_picture.workers.meter import LEVELS

SECONDS = tuple(f"s{level:g}" for level in LEVELS)
"""Columns of the processor seconds until each level; empty where it was never reached."""
COLUMNS = (
    *("case", "contestant", "update", "together", *SECONDS),
    *("psnr", "loss", "total", "wall", "searches", "guesses", "images", "ended", "prior", "smoothing", "reason"),
)
SLACK, START_UP = 3.0, 300.0
"""On a busy machine a processor second takes longer; a worker also imports, reads images and warms up."""
Run = dict[str, Any]
"""One line of the table: what came of one update, see ``Meter.report``; or the reason why nothing did."""


class Kept:
    """The table of every single run, written after each.

    Args:
        path: csv; None to keep it nowhere.
        key: columns that name a run.
    """

    def __init__(self, path: Path | None, key: Sequence[str] = ("case", "contestant", "update")) -> None:
        self.path, self.key = path, tuple(key)
        self.runs: list[Run] = []
        if path is not None and path.is_file():
            table = pd.read_csv(path)
            # what failed is tried again
            whole = table[table["reason"].isna()].astype(object)
            self.runs = whole.where(whole.notna(), None).to_dict("records")

    def has(self, **wanted: Any) -> bool:
        """Tell whether there is a run with these values."""
        return any(all(run.get(name) == value for name, value in wanted.items()) for run in self.runs)

    def add(self, runs: Sequence[Run]) -> None:
        """Keep runs, in place of those of the same names."""
        fresh = {tuple(run.get(name) for name in self.key) for run in runs}
        others = [run for run in self.runs if tuple(run.get(name) for name in self.key) not in fresh]
        self.runs = [*others, *runs]
        if self.path is not None:
            write_table(self.path, self.table())

    def table(self) -> pd.DataFrame:
        """Return one line per run."""
        whole = ["update", "together", "searches", "guesses", "images"]
        return pd.DataFrame(self.runs, columns=list(COLUMNS)).astype(dict.fromkeys(whole, "Int64"))


def measured(python: Path, contestant: Attacker, job: Job) -> list[Run]:
    """Run a worker; what fails is a line with its reason for every update.

    Args:
        python: interpreter of its environment.
        contestant: who.
        job: what.
    """
    module = f"time_to_picture.workers.{contestant.module}"
    common: Run = {
        "case": job.case_name,
        "contestant": contestant.name,
        "together": len(job.updates),
        "smoothing": job.smoothing,
    }
    try:
        found = output(python, module, job.to_json(), limit=SLACK * job.cap * len(job.updates) + START_UP)
        _check(found["runs"], job)
    except FailedError as reason:
        return [{**common, "update": update, "reason": str(reason)} for update in job.updates]
    return [
        {**common, **run, **dict(zip(SECONDS, run["seconds"], strict=True)), "prior": found["prior"]}
        for run in found["runs"]
    ]


def _check(found: Sequence[Run], job: Job) -> None:
    """Refuse a report of other updates or batches than were asked for, or of a picture that nobody has guessed.

    Raises:
        FailedError: says what is wrong.
    """
    if tuple(run["update"] for run in found) != job.updates:
        raise FailedError(f"it reports updates {[run['update'] for run in found]} of {list(job.updates)}")
    for run in found:
        if run["images"] != job.case.batch:
            raise FailedError(f"it was given {run['images']} images an update, not {job.case.batch}")
        if run["guesses"] < max(1, run["searches"]):
            raise FailedError(f"it made {run['searches']} searches and was heard of {run['guesses']} times")


def folder_of(folder: Path, case: Case, *, held_out: bool = False) -> Path:
    """Return where the material of a case lies."""
    return folder / (f"{case.name}-held-out" if held_out else case.name)
