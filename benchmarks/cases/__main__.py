"""Thousands of drawn cases of what people really bring: right data or one line, and nothing lost.

PYTHONPATH=benchmarks .venv/bin/python -m cases            writes benchmarks/cases.csv
PYTHONPATH=benchmarks .venv/bin/python -m cases --quick    some of each kind; prints only
"""

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd

from cases import catalogs, images, items, sums, surroundings, updates, words
from cases.outcomes import LOST, OUTCOMES, TRACEBACK, Case, tried
from leaklab.records.files import write_table

TABLE = Path(__file__).parents[1] / "cases.csv"
KINDS: dict[str, tuple[Case, int]] = {
    "folders of images": (images.case, 1000),
    "catalogs and arrays": (catalogs.case, 900),
    "items": (items.case, 1000),
    "masked sums": (sums.case, 800),
    "files of updates": (updates.case, 800),
    "command lines": (words.case, 400),
    "surroundings": (surroundings.case, 300),
}
"""Kind -> the case, and how many are drawn."""
QUICK = 20
"""One in so many is drawn when quick."""


def main() -> None:
    """Draw the cases kind by kind, print a line for each; exit with 1 after a traceback or a silent loss."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="some of each kind; prints only")
    parser.add_argument("--kind", choices=KINDS, action="append", help="only this one; prints only")
    options = parser.parse_args()
    lines = []
    for kind in options.kind or KINDS:
        case, number = KINDS[kind]
        began = time.monotonic()
        # no TemporaryDirectory: each fork of this process would clear it away at its own end
        folder = Path(tempfile.mkdtemp(prefix="cases-"))
        try:
            tally = tried(case, number // (QUICK if options.quick else 1), folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        counts = {outcome: tally.counts[outcome] for outcome in OUTCOMES}
        lines.append({"kind": kind, "cases": tally.cases, **counts, "seconds": round(time.monotonic() - began)})
        told = ", ".join(f"{count} {name}" for name, count in counts.items())
        print(f"{kind}: {tally.cases} cases, {told}", flush=True)
        for example in tally.examples.values():
            print(example, file=sys.stderr, flush=True)
    table = pd.DataFrame(lines)
    print(f"{table['cases'].sum()} cases, {table[TRACEBACK].sum()} tracebacks, {table[LOST].sum()} silent losses")
    if not options.quick and not options.kind:
        write_table(TABLE, table)
    sys.exit(int(bool(table[[TRACEBACK, LOST]].to_numpy().any())))


if __name__ == "__main__":
    main()
