"""Train some rounds of a sweep and leave its checkpoint: one piece of a long ``train_federated``."""

from collections.abc import Iterable, Iterator
from math import ceil

from leaklab.records.files import write_json
from leaklab.steps import train_federated
from leaklab.steps.base import Item, Job, main
from leaklab.steps.pieces import Piece, PieceDone

SWEEP, WEIGHTS, CHECKPOINT = "sweep.parquet", "weights.safetensors", "checkpoint.safetensors"


class TrainPiece(Piece):
    """Piece k of n ends at the first checkpoint that has (k + 1)/n of all rounds."""

    def track(self, items: Iterable[Item], total: int, label: str) -> Iterator[Item]:
        """Yield rounds until a checkpoint holds those of this piece, then end it.

        The last checkpoint before the end of the training ends every piece: a piece never writes the job's results.
        """
        rounds = list(items)
        done = int(rounds[0]) if rounds else 0  # type: ignore[call-overload]
        stop = ceil((done + total) * (self.number + 1) / self.pieces)
        kept = self._saved()  # a job that goes on has a checkpoint of all rounds done
        for index in self.shown(rounds, total, label):
            if done >= stop and (self._saved() != kept or done == rounds[0]):
                break
            kept = self._saved()
            yield index
            done += 1
        raise PieceDone

    def _saved(self) -> int:
        file = self.folder / CHECKPOINT
        return file.stat().st_mtime_ns if file.exists() else 0


def run(job: Job) -> None:
    """Write output ``marker``; inputs are those of ``train_federated``, whose checkpoint lies in the run's folder.

    A training that reaches its goal in this piece does so once more, from its last checkpoint, in those that follow.
    """
    folder = job.outputs["marker"].parent
    TrainPiece.of(job, folder, {"sweep": folder / SWEEP, "weights": folder / WEIGHTS}).run(train_federated.trained)
    write_json(job.outputs["marker"], {"checkpoint": CHECKPOINT})


if __name__ == "__main__":
    main("train_piece", run)
