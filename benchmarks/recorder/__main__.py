"""Measure what recording costs, and write the page.

PYTHONPATH=benchmarks .venv/bin/python -m recorder [--flower PYTHON] [--exchanges | --page]
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from speed.costs import one_thread
from speed.page import wrapped

from leaklab.records.files import write_text
from recorder.measuring import SIZES, exchange, flower
from recorder.page import page

PAGE, TABLE = Path("benchmarks/recorder.md"), Path("benchmarks/recorder.csv")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all sizes, unless only the page is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--flower", default=sys.executable, metavar="PYTHON", help="a Python that has flwr[simulation]")
    parser.add_argument("--exchanges", action="store_true", help="measure those anew, and keep the table's rounds")
    parser.add_argument("--page", action="store_true", help="only write the page anew, from the table")
    asked = parser.parse_args(arguments)
    if not asked.page:
        rows = []
        known = pd.read_csv(TABLE).set_index("parameters").to_dict("index") if asked.exchanges else {}
        for size, parameters in SIZES.items():
            rounds = known[parameters] if asked.exchanges else flower(size, asked.flower)
            rows.append(rounds | exchange(size))
            sys.stderr.write(f"{rows[-1]}\n")
            write_text(TABLE, pd.DataFrame(rows).to_csv(index=False))
    write_text(PAGE, wrapped(page(pd.read_csv(TABLE))))


if __name__ == "__main__":
    one_thread()
    main()
