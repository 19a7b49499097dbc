"""One piece of a long job: its step runs until the piece ends, and leaves the checkpoint that a killed job leaves."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leaklab.records.files import write_json
from leaklab.steps.base import Item, Job

NUMBER = "pieces.json"  # read by planning/pieces.py, which jobs do not import


class PieceDone(Exception):  # noqa: N818 - nothing went wrong
    """The piece has ended; what follows is for the next job."""


@dataclass(frozen=True)
class Piece(Job):
    """A job that ends early.

    Attributes:
        number: which piece it is, from 0.
        pieces: into how many the job is cut.
        folder: of the run, where the number of pieces is kept.
    """

    number: int
    pieces: int
    folder: Path

    @classmethod
    def of(cls, job: Job, folder: Path, outputs: dict[str, Path]) -> "Piece":
        """Return the piece that a step was called for.

        Args:
            job: whose spec says ``piece``, ``pieces`` and, under ``spec``, what the whole job is told.
            folder: of the run.
            outputs: what the whole job would write.
        """
        told: dict[str, Any] = job.spec
        return cls(told["spec"], job.inputs, outputs, job.device, job.recorder, told["piece"], told["pieces"], folder)

    def run(self, whole: Callable[[Job], None]) -> None:
        """Run the whole job's step until this piece ends."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.folder / NUMBER, {"pieces": self.pieces})
        try:
            whole(self)
        except PieceDone:
            return
        raise RuntimeError("a piece of a job came to the end of the whole job")  # its loop is not `track`ed any more

    def shown(self, items: Iterable[Item], total: int, label: str) -> Iterator[Item]:
        """Yield the items with a progress bar, as a whole job does."""
        return super().track(items, total, f"piece {self.number + 1} of {self.pieces}: {label}")
