"""The command line of a benchmark: measure, print the page, and write it if all of it is there."""

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from leaklab.records.files import write_table, write_text
from speed.contest import NOT_INSTALLED, HeatOf, Results, hold
from speed.contestants import Contestant
from speed.kept import Kept
from speed.machine import description
from speed.processes import FailedError
from speed.rows import Row

FOLDER = Path(__file__).parents[1]
REPEATS, QUICK_REPEATS = 3, 1
T = TypeVar("T")


@dataclass(frozen=True)
class Benchmark:
    """What one benchmark brings.

    Attributes:
        title: first line of its help.
        variable: of the Makefile, which hands the options on.
        file: stem of its page and table.
        fewer: what there is less of under ``--quick``.
        workloads: what is done; each has a name and ``quick()``.
        quick: names of those that are done under ``--quick``.
        contestants: who does it.
        heat_of: makes a workload ready.
        rows: figures of its results.
        page: the page of rows, results, machine, command and repeats.
        table: every single run.
    """

    title: str
    variable: str
    file: str
    fewer: str
    workloads: Sequence[Any]
    quick: Sequence[str]
    contestants: Sequence[Contestant]
    heat_of: HeatOf
    rows: Callable[[Results, Sequence[Any], Sequence[Contestant]], Sequence[Row[Any, Any]]]
    page: Callable[[Any, Results, str, str, int], str]
    table: Callable[[Results], pd.DataFrame]


def run(benchmark: Benchmark) -> None:
    """Do what the command line asks for, and exit with 1 if a figure is missing."""
    options = _options(benchmark)
    every = [workload.name for workload in benchmark.workloads]
    chosen = named(benchmark.workloads, options.workloads or (benchmark.quick if options.quick else every))
    workloads = [workload.quick() if options.quick else workload for workload in chosen]
    contestants = named(benchmark.contestants, options.contestants)
    repeats = options.repeats or (QUICK_REPEATS if options.quick else REPEATS)
    kept = None if options.quick else Kept(benchmark.file, sys.argv[1:], description())
    try:
        results = hold(benchmark.heat_of, workloads, contestants, repeats, options.limit, kept=kept)
    except FailedError as reason:
        sys.exit(f"the peak of this machine could not be measured: {reason}")
    lines = benchmark.rows(results, workloads, contestants)
    given = f' {benchmark.variable}="{shlex.join(sys.argv[1:])}"' if sys.argv[1:] else ""
    text = benchmark.page(lines, results, description(), f"make bench{given}", repeats)
    print(text)
    whole = not options.quick and (len(workloads), len(contestants)) == (len(every), len(benchmark.contestants))
    if folder := options.output or (FOLDER if whole else None):
        write_text(folder / f"{benchmark.file}.md", text)
        write_table(folder / f"{benchmark.file}.csv", benchmark.table(results))
    if kept:
        kept.end()
    sys.exit(status(lines))


def _options(benchmark: Benchmark) -> argparse.Namespace:
    epilog = "a partial run only prints its page; one that was stopped goes on with the workload that it was at"
    parser = argparse.ArgumentParser(f"make bench {benchmark.variable}=", description=benchmark.title, epilog=epilog)
    less = f"once, few {benchmark.fewer}, by default {', '.join(benchmark.quick)}"
    parser.add_argument("--quick", action="store_true", help=less)
    names = [workload.name for workload in benchmark.workloads]
    parser.add_argument("--workloads", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    names = [contestant.name for contestant in benchmark.contestants]
    parser.add_argument("--contestants", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    runs = f"runs of each, {REPEATS} or {QUICK_REPEATS} when quick"
    parser.add_argument("--repeats", type=positive, metavar="N", help=runs)
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
    return [thing for thing in things if getattr(thing, "name", None) in names]


def status(lines: Sequence[Row[Any, Any]]) -> int:
    """Return 1 if a figure is missing; a peer that cannot be installed is no failure of the benchmark."""
    return int(any(line.figures is None and not line.reason.startswith(NOT_INSTALLED) for line in lines))
