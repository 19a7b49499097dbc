"""Measure the training engine beside plain loops and peers; ``make bench`` runs this.

make bench                        everything; writes benchmarks/training.md and .csv
make bench BENCH=--quick          some workloads, once, few rounds; prints only
make bench BENCH="--workloads w2 --contestants ours plain --output /tmp/bench"
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from leaklab.records.files import write_table, write_text
from training_speed.contest import NOT_INSTALLED, hold
from training_speed.contestants import CONTESTANTS
from training_speed.machine import description
from training_speed.report import page, table
from training_speed.rows import Row, rows
from training_speed.runs import FailedError
from training_speed.workloads import QUICK, WORKLOADS

FOLDER = Path(__file__).parents[1]
REPEATS, QUICK_REPEATS = 3, 1
T = TypeVar("T")


def main() -> None:
    """Measure, print the page, and write it if all of it is there."""
    options = _options()
    names = options.workloads or (QUICK if options.quick else [workload.name for workload in WORKLOADS])
    workloads = [workload.quick() if options.quick else workload for workload in named(WORKLOADS, names)]
    contestants = named(CONTESTANTS, options.contestants)
    repeats = options.repeats or (QUICK_REPEATS if options.quick else REPEATS)
    try:
        results = hold(workloads, contestants, repeats, options.limit)
    except FailedError as reason:
        sys.exit(f"the peak of this machine could not be measured: {reason}")
    lines = rows(results, workloads, contestants)
    command = " ".join(["make bench", f'BENCH="{" ".join(sys.argv[1:])}"' if sys.argv[1:] else ""]).strip()
    text = page(lines, results, description(), command, repeats)
    print(text)
    whole = not options.quick and (len(workloads), len(contestants)) == (len(WORKLOADS), len(CONTESTANTS))
    if folder := options.output or (FOLDER if whole else None):
        write_text(folder / "training.md", text)
        write_table(folder / "training.csv", table(results))
    sys.exit(status(lines))


def _options() -> argparse.Namespace:
    lines = (__doc__ or "").splitlines()
    parser = argparse.ArgumentParser("make bench", description=lines[0], epilog="a partial run only prints its page")
    parser.add_argument("--quick", action="store_true", help=f"once, few rounds, by default {', '.join(QUICK)}")
    names = [workload.name for workload in WORKLOADS]
    parser.add_argument("--workloads", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    names = [contestant.name for contestant in CONTESTANTS]
    parser.add_argument("--contestants", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    parser.add_argument(
        "--repeats",
        type=positive,
        metavar="N",
        help=f"runs of each, {REPEATS} or {QUICK_REPEATS} when quick",
    )
    parser.add_argument("--limit", type=float, default=900.0, help="seconds a run may take")
    parser.add_argument("--output", type=Path, help="folder for the page and the table")
    return parser.parse_args()


def positive(text: str) -> int:
    """Return a number of repeats from the command line."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {number}")
    return number


def named(things: Sequence[T], names: Sequence[str]) -> list[T]:
    """Return the things of these names, in their own order."""
    return [thing for thing in things if thing.name in names]


def status(lines: Sequence[Row]) -> int:
    """Return 1 if a figure is missing; a peer that cannot be installed is no failure of the benchmark."""
    return int(any(line.figures is None and not line.reason.startswith(NOT_INSTALLED) for line in lines))


if __name__ == "__main__":
    main()
