"""Read a dozen kinds of clients without a search, try near-misses, and write what came of it.

``python -m probe_proofs`` makes ``probe_proofs.md`` and the tables beside this folder; it goes on where it was stopped.
"""

import argparse
import csv
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch

from leaklab.probing.algebra.bounds import bounds
from leaklab.probing.algebra.proofs import proofs
from leaklab.probing.case import Case
from probe_proofs.kinds import Kind, kinds
from probe_proofs.misses import Try, closeness, tried
from probe_proofs.page import page

HERE = Path(__file__).parents[1]


@dataclass(frozen=True)
class Row:
    """What was read of one kind of client.

    Attributes:
        kind: its name.
        samples: of its batch.
        equations: that were sent, at most.
        unknowns: of the batch.
        read: readings of samples, by which way and of what, and how many of them.
        proven: how many of them were proven.
        false: how many certificates are false.
        lowest: PSNR of the proven ones, dB, the lowest; of all where none is. Empty for none, and for tokens.
        seconds: of a processor, bounds and proofs together.
    """

    kind: str
    samples: int
    equations: int
    unknowns: int
    read: str
    proven: int
    false: int
    lowest: str
    seconds: float


def read(name: str, kind: Kind) -> Row:
    """Return what is read of a kind of client."""
    case = Case(kind.client, kind.client.round(kind.inputs, kind.targets), kind.inputs, kind.targets)
    start = time.process_time()
    bound, found = bounds(case), proofs(case)
    seconds = time.process_time() - start
    groups = [(one.by, one.of) for one in found.readings]
    said = "; ".join(f"{groups.count(one)} by {one[0]} of {one[1]}" for one in dict.fromkeys(groups))
    tokens = [one for one in found.readings if one.by == "rows"]
    if tokens:
        false = sum(one.proven and not torch.equal(one.values, kind.inputs.unique()) for one in tokens)
        close = []
    else:
        of_proven = [place for place, one in enumerate(found.readings) if one.proven]
        close = [closeness(case, found, place) for place in of_proven or range(len(found.readings))]
        false = sum(one < 60 for one in close) if of_proven else 0
    return Row(
        name,
        len(kind.inputs),
        bound.equations,
        len(kind.inputs) * (bound.unknowns or 0),
        said,
        sum(one.proven for one in found.readings),
        false,
        f"{min(close):.0f}" if close else "",
        round(seconds, 2),
    )


def _append(path: Path, row: Row | Try) -> None:
    """Write a row below the others, at once: a run goes on where it was stopped."""
    fresh = not path.is_file()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, [one.name for one in fields(row)], lineterminator="\n")
        if fresh:
            writer.writeheader()
        writer.writerow(asdict(row))


def _read(path: Path, kind: type) -> list[Any]:
    """Return the rows that are there, in the types of their fields."""
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return [kind(**{one.name: one.type(row[one.name]) for one in fields(kind)}) for row in csv.DictReader(file)]


def main() -> None:
    """Measure what is missing in the tables, and write the page."""
    parser = argparse.ArgumentParser(prog="probe_proofs", description=__doc__)
    parser.add_argument("--tries", type=int, default=504, help="near-misses, in turns over all kinds of them")
    parser.add_argument("--output", type=Path, default=HERE, help="folder of the page and the tables")
    settings = parser.parse_args()
    torch.set_num_threads(1)
    table, misses = (settings.output / f"probe_proofs{end}.csv" for end in ("", "_misses"))
    done = {one.kind for one in _read(table, Row)}
    for name, make in kinds().items():
        if name not in done:
            _append(table, read(name, make()))
    for number in range(len(_read(misses, Try)), settings.tries):
        _append(misses, tried(number))
    text = page(_read(table, Row), _read(misses, Try))
    (settings.output / "probe_proofs.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
