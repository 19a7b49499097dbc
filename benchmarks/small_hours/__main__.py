"""Where the processor hours of scale `small` go, by the published costs and records, each job counted once.

PYTHONPATH=benchmarks .venv/bin/python -m small_hours             writes benchmarks/small_hours.csv and small_hours.md
PYTHONPATH=benchmarks .venv/bin/python -m small_hours --page      makes the page from the tables alone
PYTHONPATH=benchmarks .venv/bin/python -m small_hours --again attack/NAME --before SRC --set iterations=12 --times 2
    runs one job by the code of two folders in turn, and adds a line to benchmarks/small_hours_again.csv; the files that
    the job reads have to be there: `snakemake` makes them
"""

import argparse
import sys
from pathlib import Path

import pandas as pd
from paper_hours.kinds import kept_kinds

from leaklab.items.items import load_items
from leaklab.planning.plan import build_plan
from leaklab.records.files import write_table
from leaklab.report.site.publication import Published
from small_hours.again import compared
from small_hours.bound import bounds, core_peaks
from small_hours.gained import gained
from small_hours.page import AGAIN, BOUND, GAINED, JOBS, KINDS, ROOFLINE, TABLE, lines_of, write_page
from small_hours.recorded import SCALE, hours_of, recorded
from small_hours.tables import groups, heaviest

FOLDER, RESULTS = Path("benchmarks"), Path("results") / SCALE


def main() -> None:
    """Sum up, or run a job again, and write tables and page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--page", action="store_true", help="only the page")
    parser.add_argument("--again", metavar="STAGE/NAME", help="a job to run by both codes")
    parser.add_argument("--before", type=Path, metavar="SRC", help="folder of the code before")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=JSON", help="other numbers of its spec")
    parser.add_argument("--times", type=int, default=2, help="runs by each code")
    asked = parser.parse_args()
    if asked.again:
        if asked.before is None:
            parser.error("--again compares with the code of a folder: name it by --before")
        line = compared(asked.again, asked.before, dict(pair.split("=", 1) for pair in asked.set), asked.times, RESULTS)
        file = FOLDER / AGAIN
        write_table(file, pd.concat([lines_of(file), pd.DataFrame([line])]))
    elif not asked.page:
        plan = build_plan(load_items(), (SCALE,))
        records = recorded(RESULTS)
        spent = hours_of(plan, Published.load(RESULTS).costs, records)
        write_table(FOLDER / TABLE, pd.DataFrame(groups(spent)))
        write_table(FOLDER / JOBS, pd.DataFrame(heaviest(spent)))
        kinds = kept_kinds((one.job for one in spent), FOLDER / KINDS)
        write_table(FOLDER / BOUND, pd.DataFrame(bounds(spent, plan, kinds, core_peaks(FOLDER / ROOFLINE))))
        again = lines_of(FOLDER / AGAIN).to_dict("records")
        write_table(FOLDER / GAINED, pd.DataFrame(gained(spent, records, again)))
    sys.stdout.write(write_page(FOLDER))


if __name__ == "__main__":
    main()
