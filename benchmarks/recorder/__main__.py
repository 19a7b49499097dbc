"""Measure what recording costs, and write the page.

PYTHONPATH=benchmarks .venv/bin/python -m recorder [--flower PYTHON] [--page]
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from speed.costs import one_thread
from speed.page import wrapped

from leaklab.records.files import write_text
from recorder.measuring import CASES, SIZES, exchange, flower
from recorder.page import page

PAGE, TABLE = Path("benchmarks/recorder.md"), Path("benchmarks/recorder.csv")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all sizes, unless only the page is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--flower", default=sys.executable, metavar="PYTHON", help="a Python that has flwr[simulation]")
    parser.add_argument("--page", action="store_true", help="only write the page anew, from the table")
    asked = parser.parse_args(arguments)
    if not asked.page:
        rows = []
        exchanges = {size: exchange(size) for size in SIZES}
        for size, steps, pairs in CASES:
            rows.append(exchanges[size] | flower(size, steps, pairs, asked.flower))
            sys.stderr.write(f"{rows[-1]}\n")
            write_text(TABLE, pd.DataFrame(rows).to_csv(index=False))
    write_text(PAGE, wrapped(page(pd.read_csv(TABLE))))


if __name__ == "__main__":
    one_thread()
    main()
