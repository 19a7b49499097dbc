"""Measure how long attackers take to a picture, ours beside plain loops and breaching.

PYTHONPATH=benchmarks .venv/bin/python -m time_to_picture            all that is not in the table yet, then the page
PYTHONPATH=benchmarks .venv/bin/python -m time_to_picture --quick    one update of two cases, some seconds each; prints
"""

import argparse
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from speed.command import FOLDER, named, positive
from speed.machine import description

from leaklab.records.files import write_text
from time_to_picture.cases import CASES, UPDATES
from time_to_picture.contest import SMOOTHING_KEY, Contest, best_smoothing
from time_to_picture.contestants import CONTESTANTS
from time_to_picture.report import page
from time_to_picture.rows import busy, rows
from time_to_picture.runs import Kept

FILE = "time_to_picture"
CAP, PATIENCE = 60.0, 15.0
QUICK_CAP, QUICK_CASES = 5.0, ("mlp-1", "lenet-1")


def main(arguments: Sequence[str] | None = None) -> None:
    """Do what the command line asks for."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    options = _options(given)
    kept = Kept(None if options.quick else options.output / f"{FILE}.csv")
    smoothing = Kept(None if options.quick else options.output / f"{FILE}_smoothing.csv", SMOOTHING_KEY)
    cases = named(CASES, options.cases or (QUICK_CASES if options.quick else [case.name for case in CASES]))
    contestants = named(CONTESTANTS, options.contestants)
    if options.quick:
        contestants = [one for one in contestants if not one.together and not one.tuned]
    cap = QUICK_CAP if options.quick else CAP
    with tempfile.TemporaryDirectory() as folder:
        contest = Contest(
            cases,
            contestants,
            1 if options.quick else options.updates,
            cap,
            PATIENCE,
            kept,
            smoothing,
            Path(folder),
            time.monotonic() + 60 * options.minutes,
        )
        missing = contest.hold()
    for name, reason in missing.items():
        print(f"{name}: {reason}", file=sys.stderr)
    shown = (cases, contestants) if options.quick else (CASES, CONTESTANTS)
    chosen = {case.name: [run for run in smoothing.runs if run["case"] == case.name] for case in CASES}
    best = {name: best_smoothing(runs) for name, runs in chosen.items() if runs}
    command = f"PYTHONPATH=benchmarks .venv/bin/python -m time_to_picture {shlex.join(given)}".strip()
    table = kept.table()
    text = page(rows(table, *shown), best, description(), command, cap, PATIENCE, busy(table))
    print(text)
    if not options.quick:
        write_text(options.output / f"{FILE}.md", text)


def _options(given: Sequence[str]) -> argparse.Namespace:
    epilog = "what is in the table already is not measured again"
    parser = argparse.ArgumentParser("time_to_picture", description=(__doc__ or "").splitlines()[0], epilog=epilog)
    less = f"one update of {', '.join(QUICK_CASES)} and {QUICK_CAP:g} s at most; prints only"
    parser.add_argument("--quick", action="store_true", help=less)
    names = [case.name for case in CASES]
    parser.add_argument("--cases", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    names = [one.name for one in CONTESTANTS]
    parser.add_argument("--contestants", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    most = f"of each case, {UPDATES} by default"
    parser.add_argument("--updates", type=positive, default=UPDATES, metavar="N", help=most)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="after which no further run is begun")
    parser.add_argument("--output", type=Path, default=FOLDER, help="folder of the page and the tables")
    options = parser.parse_args(given)
    if options.updates > UPDATES:
        parser.error(f"a case has {UPDATES} updates")
    return options


if __name__ == "__main__":
    main()
