"""Measure what the searches of a probe read of many kinds of models, and of controls; who is named, what stops them.

PYTHONPATH=benchmarks .venv/bin/python -m probe_searches                 all that is not in the table yet, then the page
PYTHONPATH=benchmarks .venv/bin/python -m probe_searches --only "MLP"    one model, then the page
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
from speed.costs import one_thread
from speed.page import wrapped

from leaklab.records.files import write_text
from probe_searches.cases import WORKLOADS, Row, Workload, measured
from probe_searches.page import page
from probe_searches.telling import TOLD, limits, told

PAGE, TABLE = Path("benchmarks/probe_searches.md"), Path("benchmarks/probe_searches.csv")
CANDIDATES, LIMITS = Path("benchmarks/probe_candidates.csv"), Path("benchmarks/probe_limits.csv")
SECONDS = 25.0
"""For what would stop a search."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is missing, keep each row as soon as it is there, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="title of a model")
    only = parser.parse_args(arguments).only
    one_thread()
    found = _kept(TABLE, WORKLOADS, measured, only)
    named = _kept(CANDIDATES, TOLD, lambda workload: [told(workload)], only)
    if not only and not LIMITS.is_file():
        write_text(LIMITS, pd.DataFrame(limits(SECONDS)).to_csv(index=False))
    stops = pd.read_csv(LIMITS)["line"].tolist() if LIMITS.is_file() else []
    write_text(PAGE, wrapped(page(found, named, stops)))


def _kept(
    table: Path, workloads: Sequence[Workload], measure: Callable[[Workload], list[Row]], only: str
) -> pd.DataFrame:
    """Return a table, after what is missing was measured; each row is kept as soon as it is there."""
    rows = pd.read_csv(table).to_dict("records") if table.is_file() else []
    done = {row["model"] for row in rows}
    for workload in workloads:
        if only in ("", workload.title) and workload.title not in done:
            rows += measure(workload)
            sys.stderr.write(f"{rows[-1]}\n")
            write_text(table, pd.DataFrame(rows).to_csv(index=False))
    order = [workload.title for workload in workloads]
    return pd.DataFrame(sorted(rows, key=lambda row: order.index(row["model"])))


if __name__ == "__main__":
    main()
