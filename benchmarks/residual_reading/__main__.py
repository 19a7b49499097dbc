"""Try to read ResNet-20 by what was learnt of networks with max pooling, and write the page.

PYTHONPATH=benchmarks .venv/bin/python -m residual_reading     all that is not in the table yet, then the page
PYTHONPATH=benchmarks .venv/bin/python -m residual_reading page     the page of the table as it is
"""

import sys
from pathlib import Path

import pandas as pd
from speed.costs import one_thread
from speed.page import wrapped

from leaklab.records.files import write_text
from residual_reading.cases import PLAN, measured
from residual_reading.page import page

PAGE, TABLE = Path("benchmarks/residual_reading.md"), Path("benchmarks/residual_reading.csv")
KEY = ("data", "attacker", "image")


def main() -> None:
    """Measure what is missing, keep each row as soon as it is there, and write the page."""
    one_thread()
    rows = pd.read_csv(TABLE).to_dict("records") if TABLE.is_file() else []
    done = {tuple(row[key] for key in KEY) for row in rows}
    for one in PLAN:
        if one not in done and "page" not in sys.argv:
            rows.append(measured(*one))
            sys.stderr.write(f"{rows[-1]}\n")
            write_text(TABLE, pd.DataFrame(rows).to_csv(index=False))
    write_text(PAGE, wrapped(page(pd.DataFrame(rows))))


if __name__ == "__main__":
    main()
