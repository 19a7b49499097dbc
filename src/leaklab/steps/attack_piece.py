"""Attack some chunks of the trials of an observation: one piece of a long ``run_attack``."""

from collections.abc import Iterable, Iterator

from leaklab.records.kept import KeptTensors
from leaklab.steps import run_attack
from leaklab.steps.base import Item, Job, main
from leaklab.steps.pieces import Piece, PieceDone


class AttackPiece(Piece):
    """Every ``pieces``-th stretch of the chunks: piece k of n has those from k/n of them to (k + 1)/n."""

    def track(self, items: Iterable[Item], total: int, label: str) -> Iterator[Item]:
        """Yield the chunks of this piece, then end it."""
        own = [item for place, item in enumerate(items) if place * self.pieces // total == self.number]
        yield from self.shown(own, len(own), label)
        raise PieceDone


def run(job: Job) -> None:
    """Write output ``part``, the checkpoint of an attack that has done this piece; inputs are those of ``run_attack``.

    While it works its own checkpoint lies in a folder beside the output, so that a killed piece goes on.
    """
    part = job.outputs["part"]
    scratch = part.with_suffix("")
    whole = {"reconstruction": scratch / "reconstruction.safetensors", "trials": scratch / "trials.csv"}
    AttackPiece.of(job, part.parent, whole).run(run_attack.run)
    checkpoint = scratch / "checkpoint.safetensors"
    if not checkpoint.exists():  # more pieces than chunks: nothing was left for this one
        KeptTensors(checkpoint, "").keep({})
    checkpoint.replace(part)
    scratch.rmdir()


if __name__ == "__main__":
    main("attack_piece", run)
