"""Attack some chunks of an observation's trials, or one chunk for some time: one piece of a long ``run_attack``."""

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from math import inf

from leaklab.attacks.savepoints import OutOfTime
from leaklab.records.kept import KeptTensors
from leaklab.steps import run_attack
from leaklab.steps.base import Item, Job, main
from leaklab.steps.pieces import Piece, PieceDone


class AttackPiece(Piece):
    """Chain c of n has the chunks from c/n of them to (c + 1)/n; most chains are one piece long."""

    def track(self, items: Iterable[Item], total: int, label: str) -> Iterator[Item]:
        """Yield the chunks of this piece, then end it."""
        chain = int(self.kept.get("chain", 1))
        chains, number = self.pieces // chain, self.number // chain
        own = [item for place, item in enumerate(items) if place * chains // total == number]
        yield from self.shown(own, len(own), label)
        raise PieceDone


def run(job: Job) -> None:
    """Write output ``part``; inputs are those of ``run_attack``.

    It is the checkpoint of an attack that has done this piece. Of a chain of pieces it is that of the last one, and
    empty before: they work in one folder beside the outputs, where a killed piece goes on as well.
    """
    began = time.monotonic()
    part, number, chain = job.outputs["part"], int(job.spec["piece"]), int(job.spec.get("chain", 1))
    last = number % chain == chain - 1
    scratch = part.with_name(f"chain-{number // chain}")
    whole = {"reconstruction": scratch / "reconstruction.safetensors", "trials": scratch / "trials.csv"}
    until = inf if last else began + float(job.spec["seconds"])
    piece = AttackPiece.of(job, part.parent, whole)
    with suppress(OutOfTime):
        if not piece.run(partial(run_attack.run, until=until)):
            raise RuntimeError("a piece of an attack wrote results")  # its loop is not `track`ed any more
    checkpoint = scratch / "checkpoint.safetensors"
    if not last or not checkpoint.exists():  # more pieces than chunks: nothing was left for this one
        KeptTensors(part, "").keep({})
        return
    checkpoint.replace(part)
    scratch.rmdir()


if __name__ == "__main__":
    main("attack_piece", run)
