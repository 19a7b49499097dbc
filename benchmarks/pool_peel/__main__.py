"""Measure pool-peel on images that no setting was chosen on, beside annealed MAP, and where it ends.

PYTHONPATH=benchmarks .venv/bin/python -m pool_peel                    all that is not in the table yet, then the page
PYTHONPATH=benchmarks .venv/bin/python -m pool_peel --only "LRP"       one workload, then the page
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from speed.costs import one_thread
from speed.page import wrapped

from leaklab.records.files import write_text
from pool_peel.cases import WORKLOADS, measured
from pool_peel.page import page

PAGE, TABLE = Path("benchmarks/pool_peel.md"), Path("benchmarks/pool_peel.csv")
KEY = ["workload", "attacker", "image"]
WORDS = Path(__file__).with_name("attempts.md")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is missing, keep each row as soon as it is there, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="title of a workload")
    only = parser.parse_args(arguments).only
    one_thread()
    rows = pd.read_csv(TABLE).to_dict("records") if TABLE.is_file() else []
    done = {tuple(row[key] for key in KEY) for row in rows}
    for workload in WORKLOADS:
        for attacker in workload.attackers:
            for image in workload.images:
                wanted = only in ("", workload.title) and (workload.title, attacker, image) not in done
                if wanted:
                    rows.append(measured(workload, attacker, image))
                    sys.stderr.write(f"{rows[-1]}\n")
                    write_text(TABLE, pd.DataFrame(rows).to_csv(index=False))
    text = wrapped(page(pd.DataFrame(rows), WORDS.read_text(encoding="utf-8")))
    write_text(PAGE, text)


if __name__ == "__main__":
    main()
