"""Measures planning, starting, audit and the workflow's overhead, and makes the page of operation figures.

PYTHONPATH=benchmarks .venv/bin/python -m operations              all of it: benchmarks/operations.csv, operations.md
PYTHONPATH=benchmarks .venv/bin/python -m operations audit        one of it; the other figures stay as they are
PYTHONPATH=benchmarks .venv/bin/python -m operations page         the page alone, from the tables that are there
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pandas as pd
from speed.machine import description

from leaklab.records.files import write_table
from operations.auditing import audit
from operations.measures import Figure
from operations.overhead import overhead
from operations.page import FOLDER, write_page
from operations.planning import graph, plan
from operations.starting import start

TABLE = FOLDER / "operations.csv"
MEASURES: dict[str, Callable[[Path, Path], list[Figure]]] = {
    "plan": lambda checkout, scratch: plan(checkout), "graph": graph, "start": start, "audit": audit,
    "overhead": overhead,
}  # fmt: skip
PAGE = "page"


def main() -> None:
    """Measure what is asked for, keep the other figures, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("measures", nargs="*", default=[*MEASURES], help=f"{', '.join(MEASURES)}, or {PAGE}")
    asked = parser.parse_args().measures
    if unknown := set(asked) - {*MEASURES, PAGE}:
        parser.error(f"no measure {sorted(unknown)[0]!r}: choose from {', '.join([*MEASURES, PAGE])}")
    for name in (name for name in MEASURES if name in asked):
        load = os.getloadavg()[0]
        with tempfile.TemporaryDirectory() as scratch:
            found = MEASURES[name](FOLDER.parent, Path(scratch))
        lines = pd.DataFrame([vars(one) for one in found]).round({"value": 4})
        write_table(TABLE, merged(_known(), lines.assign(machine=description(), load=round(load, 1))))
    sys.stdout.write(write_page())


def merged(known: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
    """Return the figures with those of measured sections in place of the older ones, sections in their own order."""
    every = pd.concat([known[~known["section"].isin(found["section"])], found]) if len(known) else found
    order = {name: number for number, name in enumerate(MEASURES)}
    return every.sort_values("section", key=lambda names: names.map(order), kind="stable")


def _known() -> pd.DataFrame:
    return pd.read_csv(TABLE, keep_default_na=False) if TABLE.is_file() else pd.DataFrame()


if __name__ == "__main__":
    main()
