"""Attack some chunks of an observation's trials, or one chunk for some time: one piece of a long ``run_attack``."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from math import inf

from leaklab.attacks.search.savepoints import OutOfTime
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
    """Write output ``part``; inputs are those of ``run_attack``."""
    began, number, chain = time.monotonic(), int(job.spec["piece"]), int(job.spec.get("chain", 1))
    last = number % chain == chain - 1
    run_piece(job, partial(run_attack.run, until=inf if last else began + float(job.spec["seconds"])), last)


def run_piece(job: Job, work: Callable[[Job], None], last: bool = True) -> None:
    """Write output ``part``, the checkpoint of an attack's work that has done this piece; empty before a chain's last.

    A chain works in one folder beside the outputs, where a killed piece goes on as well.
    """
    part, number, chain = job.outputs["part"], int(job.spec["piece"]), int(job.spec.get("chain", 1))
    scratch = part.with_name(f"chain-{number // chain}")
    whole = {"reconstruction": scratch / "reconstruction.safetensors", "trials": scratch / "trials.csv"}
    with suppress(OutOfTime):
        if not AttackPiece.of(job, part.parent, whole).run(work):
            raise RuntimeError("a piece of an attack wrote results")  # its loop is not `track`ed any more
    checkpoint = scratch / "checkpoint.safetensors"
    if not last or not checkpoint.exists():  # more pieces than chunks: nothing was left for this one
        KeptTensors(part, "").keep({})
        return
    checkpoint.replace(part)
    scratch.rmdir()


if __name__ == "__main__":
    main("attack_piece", run)
