"""Measure the attack engine beside a plain loop and breaching.

make bench                                               everything; writes benchmarks/attacks.md and .csv
make bench BENCH=--quick                                 without reconstructions, once, few iterations; prints only
"""

import argparse
import shlex
import sys
from pathlib import Path

from training_speed.__main__ import named, positive, status
from training_speed.machine import description
from training_speed.runs import FailedError

from attack_speed.contest import hold
from attack_speed.contestants import CONTESTANTS
from attack_speed.report import page, table
from attack_speed.rows import rows
from attack_speed.workloads import QUICK, WORKLOADS
from leaklab.records.files import write_table, write_text

FOLDER = Path(__file__).parents[1]
REPEATS, QUICK_REPEATS = 3, 1


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
    command = " ".join(["make bench", f'ATTACKS="{shlex.join(sys.argv[1:])}"' if sys.argv[1:] else ""]).strip()
    text = page(lines, results, description(), command, repeats)
    print(text)
    whole = not options.quick and (len(workloads), len(contestants)) == (len(WORKLOADS), len(CONTESTANTS))
    if folder := options.output or (FOLDER if whole else None):
        write_text(folder / "attacks.md", text)
        write_table(folder / "attacks.csv", table(results))
    sys.exit(status(lines))


def _options() -> argparse.Namespace:
    lines = (__doc__ or "").splitlines()
    parser = argparse.ArgumentParser("attack_speed", description=lines[0], epilog="a partial run only prints its page")
    parser.add_argument("--quick", action="store_true", help=f"once, few iterations, by default {', '.join(QUICK)}")
    names = [workload.name for workload in WORKLOADS]
    parser.add_argument("--workloads", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    names = [contestant.name for contestant in CONTESTANTS]
    parser.add_argument("--contestants", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    parser.add_argument(
        "--repeats", type=positive, metavar="N", help=f"runs of each, {REPEATS} or {QUICK_REPEATS} when quick"
    )
    parser.add_argument("--limit", type=float, default=900.0, help="seconds a run may take")
    parser.add_argument("--output", type=Path, help="folder for the page and the table")
    return parser.parse_args()


if __name__ == "__main__":
    main()
