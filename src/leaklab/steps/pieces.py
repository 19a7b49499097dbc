"""One piece of a long job: its step runs until the piece ends, and leaves the checkpoint that a killed job leaves."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leaklab.records.files import write_json
from leaklab.steps.base import Item, Job

NUMBER = "pieces.json"  # read by planning/pieces.py, which jobs do not import
KEPT = ("pieces", "chain", "seconds")  # the plan tells the pieces of a job that was begun the same again


class PieceDone(Exception):  # noqa: N818 - nothing went wrong
    """The piece has ended; what follows is for the next job."""


@dataclass(frozen=True)
class Piece(Job):
    """A job that ends early.

    Attributes:
        number: which piece it is, from 0.
        pieces: into how many the job is cut.
        folder: of the run, where ``kept`` is kept.
    """

    number: int
    pieces: int
    folder: Path
    kept: dict[str, Any]

    @classmethod
    def of(cls, job: Job, folder: Path, outputs: dict[str, Path]) -> "Piece":
        """Return the piece that a step was called for.

        Args:
            job: whose spec says ``piece``, what of ``KEPT`` there is and, under ``spec``, what the whole job is told.
            folder: of the run.
            outputs: what the whole job would write.
        """
        told: dict[str, Any] = job.spec
        kept = {name: told[name] for name in KEPT if name in told}
        whole = told["spec"], job.inputs, outputs, job.device, job.recorder
        return cls(*whole, told["piece"], told["pieces"], folder, kept)

    def run(self, whole: Callable[[Job], object]) -> bool:
        """Run the whole job's work until this piece ends, and return whether that was before the work's own end."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.folder / NUMBER, self.kept)
        try:
            whole(self)
        except PieceDone:
            return True
        return False

    def shown(self, items: Iterable[Item], total: int, label: str) -> Iterator[Item]:
        """Yield the items with a progress bar, as a whole job does."""
        return super().track(items, total, f"piece {self.number + 1} of {self.pieces}: {label}")
