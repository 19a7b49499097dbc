"""Measure what the searches of a probe read of many kinds of models, and of controls.

PYTHONPATH=benchmarks .venv/bin/python -m probe_searches                 all that is not in the table yet, then the page
PYTHONPATH=benchmarks .venv/bin/python -m probe_searches --only "MLP"    one model, then the page
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from speed.costs import one_thread
from speed.page import wrapped

from leaklab.records.files import write_text
from probe_searches.cases import WORKLOADS, measured
from probe_searches.page import page

PAGE, TABLE = Path("benchmarks/probe_searches.md"), Path("benchmarks/probe_searches.csv")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is missing, keep each row as soon as it is there, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="title of a model")
    only = parser.parse_args(arguments).only
    one_thread()
    rows = pd.read_csv(TABLE).to_dict("records") if TABLE.is_file() else []
    done = {row["model"] for row in rows}
    for workload in WORKLOADS:
        if only in ("", workload.title) and workload.title not in done:
            rows += measured(workload)
            sys.stderr.write(f"{rows[-1]}\n")
            write_text(TABLE, pd.DataFrame(rows).to_csv(index=False))
    write_text(PAGE, wrapped(page(pd.DataFrame(rows))))


if __name__ == "__main__":
    main()
