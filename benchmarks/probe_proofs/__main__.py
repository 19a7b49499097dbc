"""Read a dozen kinds of clients without a search, try near-misses, and write what came of it.

``python -m probe_proofs`` makes ``probe_proofs.md`` and ``probe_proofs.csv`` beside this folder.
"""

import argparse
import csv
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch

from leaklab.probing.bounds import bounds
from leaklab.probing.case import Case
from leaklab.probing.proofs import proofs
from probe_proofs.kinds import Kind, kinds
from probe_proofs.misses import MISSES, Try, closeness, tried
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


def _write(path: Path, rows: Sequence[Row] | Sequence[Try], kind: type) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [one.name for one in fields(kind)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(one) for one in rows)


def _rows(names: Iterable[str]) -> list[Row]:
    made, rows = kinds(), []
    for name in names:
        rows.append(read(name, made[name]()))
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="probe_proofs", description=__doc__)
    parser.add_argument("--tries", type=int, default=504, help="near-misses, in turns over all kinds of them")
    parser.add_argument("--kinds", nargs="*", default=list(kinds()), help="kinds of clients; all by default")
    parser.add_argument("--output", type=Path, default=HERE, help="folder of the page and the tables")
    settings = parser.parse_args()
    torch.set_num_threads(1)
    start = time.process_time()
    rows = _rows(settings.kinds)
    tries = []
    for number in range(settings.tries):
        tries.append(tried(number))
        if (number + 1) % len(MISSES) == 0:
            print(f"{number + 1} near-misses, {sum(one.false for one in tries)} false", flush=True)
    _write(settings.output / "probe_proofs.csv", rows, Row)
    _write(settings.output / "probe_proofs_misses.csv", tries, Try)
    text = page(rows, tries, time.process_time() - start)
    (settings.output / "probe_proofs.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
