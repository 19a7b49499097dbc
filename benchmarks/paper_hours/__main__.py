"""What scale `paper` asks of one H100, on paper: item by item, by products, bytes and launches.

PYTHONPATH=benchmarks .venv/bin/python -m paper_hours            counts what is not counted yet, writes all tables
PYTHONPATH=benchmarks .venv/bin/python -m paper_hours --page     makes the page from the tables alone
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from leaklab.items.items import load_items
from leaklab.planning.plan import Job, Plan, build_plan
from leaklab.planning.resources import cost
from leaklab.records.files import write_table
from paper_hours.cheaper import steps
from paper_hours.hours import SCALE, Load, each_once, heaviest, jobs_by_item, load_of, summed, table
from paper_hours.kinds import Kind, kept_kinds, words_of
from paper_hours.measured import compared, slower
from paper_hours.page import HEAVIEST, KINDS, MEASURED, TABLE, WAYS, write_page

FOLDER = Path("benchmarks")
COSTS = Path("results/small/costs.csv")


def main() -> None:
    """Count, sum up, and write tables and page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--page", action="store_true", help="only the page")
    if not parser.parse_args().page:
        write_tables(build_plan(load_items(), (SCALE,)), FOLDER)
    sys.stdout.write(write_page(FOLDER))


def write_tables(plan: Plan, folder: Path) -> None:
    """Count every kind of work that the folder has no count of, and write the tables there."""
    jobs = each_once(job for own in jobs_by_item(plan).values() for job in own)
    kinds = kept_kinds(jobs, folder / KINDS)
    write_table(folder / KINDS, _with_units(jobs, plan, kinds))
    measured = compared(jobs, kinds)
    write_table(folder / MEASURED, pd.DataFrame(measured))
    write_table(folder / TABLE, pd.DataFrame(table(plan, kinds, slower(measured))))
    small = build_plan(load_items(), ("small",))
    rows = [
        {"item": item, "jobs": len(own), "same_jobs": ", ".join(same), **row, **used_at_small(item, small)}
        for item, own, same in heaviest(plan, kinds, HEAVIEST)
        for row in steps(own, plan, kinds)
    ]
    write_table(folder / WAYS, pd.DataFrame(rows))


def used_at_small(item: str, plan: Plan) -> dict[str, float]:
    """Return how many of the evaluations that its searches may take at most an item took at scale `small`."""
    done = pd.read_csv(COSTS).set_index("item")["evaluations"].to_dict()
    most = sum(cost(job.spec).evaluations for job in plan.jobs_of("small", plan.items[item]))
    return {"used_at_small": float(done[item]) / most} if most and item in done else {}


def _with_units(jobs: Sequence[Job], plan: Plan, kinds: Mapping[str, Kind]) -> pd.DataFrame:
    """Return the kinds that some job has, with their jobs, units and hours."""
    own: dict[str, list[Load]] = {}
    for job in jobs:
        own.setdefault(words_of(job.spec), []).append(load_of(job, plan, kinds))
    sums = {words: summed(loads) for words, loads in own.items() if words}
    return pd.DataFrame(
        {**asdict(kinds[words]), "jobs": load.jobs, "units": load.units, "hours": load.hours}
        for words, load in sorted(sums.items())
    )


if __name__ == "__main__":
    main()
