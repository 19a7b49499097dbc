"""How long a whole scale takes on 1 to 8 workers, against the ideal, on paper and rehearsed by Snakemake with sleeps.

PYTHONPATH=benchmarks .venv/bin/python -m campaign              writes benchmarks/campaign.md and campaign.csv
PYTHONPATH=benchmarks .venv/bin/python -m campaign --on-paper   without the rehearsal; prints only
"""

import argparse
import csv
import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from campaign.rehearsal import rehearsed
from campaign.schedule import bounds, makespan
from campaign.tasks import Task, tasks_of
from leaklab.items.items import load_items
from leaklab.planning.devices import Device
from leaklab.planning.pieces import MINUTES
from leaklab.planning.plan import build_plan
from leaklab.records.config import Scale
from leaklab.records.files import write_text

SCALES: Sequence[Scale] = ("small", "paper")
WORKERS = (1, 2, 4, 8)
REHEARSED, PER_HOUR = (4, 8), 10.0
ORDERS = {False: "queue", True: "longest chain first"}
PAGE = Path("benchmarks/campaign.md")
Row = dict[str, str | int | float]


def main() -> None:
    """Plan, schedule, rehearse, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--on-paper", action="store_true", help="no rehearsal; prints only")
    on_paper = parser.parse_args().on_paper
    plan = build_plan(load_items(), SCALES)
    every = {scale: tasks_of(plan, scale, Device()) for scale in SCALES}
    rows = [row(scale, tasks, workers) for scale, tasks in every.items() for workers in WORKERS]
    real = [rehearsal(every["small"], n, ranked) for n in REHEARSED for ranked in ORDERS if not on_paper]
    text = page(rows, real, {scale: len(tasks) for scale, tasks in every.items()})
    if not on_paper:
        write_text(PAGE, text)
        write_text(PAGE.with_suffix(".csv"), table([*rows, *real]))
    sys.stdout.write(text)


def row(scale: str, tasks: Mapping[str, Task], workers: int) -> Row:
    """Return one line: hours on so many workers, in the order of a queue and with the longest chain first."""
    limit = bounds(tasks)
    ideal, queue, longest = (limit.ideal(workers), makespan(tasks, workers), makespan(tasks, workers, True))
    return {"scale": scale, "workers": workers, "jobs": len(tasks), "longest_job_minutes": _longest(tasks) / 60,
            "longest_path_hours": limit.path / 3600, "ideal_hours": ideal / 3600, "queue_hours": queue / 3600,
            "queue_over_ideal": queue / ideal, "longest_first_over_ideal": longest / ideal}  # fmt: skip


def rehearsal(tasks: Mapping[str, Task], workers: int, ranked: bool) -> Row:
    """Return what Snakemake took for the tasks as sleeps, beside the same sleeps on paper."""
    planned = makespan(tasks, workers, ranked) * PER_HOUR / 3600
    seconds, start = rehearsed(tasks, workers, PER_HOUR, ranked)
    return {"scale": "small, as sleeps", "workers": workers, "order": ORDERS[ranked], "jobs": len(tasks),
            "planned_seconds": planned,
            "seconds": seconds, "start_seconds": start,
            "added_seconds_per_job": (seconds - start - planned) / len(tasks)}  # fmt: skip


def _longest(tasks: Mapping[str, Task]) -> float:
    return max(task.seconds for task in tasks.values())


def page(rows: Sequence[Row], real: Sequence[Row], jobs: Mapping[str, int]) -> str:
    """Return the page."""
    head = (
        "# A campaign before it is run\n\n"
        "`PYTHONPATH=benchmarks .venv/bin/python -m campaign` made this page: all jobs of a scale as `leaklab plan`\n"
        f"knows them, attacks and trainings cut into pieces of at most {MINUTES:g} minutes, {jobs['small']} jobs at\n"
        f"`small` and {jobs['paper']} at `paper`, with the estimated times of one processor thread. A worker is what\n"
        "does one job at a time: a thread here, a GPU with the thread beside it on a cluster. Ideal is the work over\n"
        "the workers, or the longest chain of jobs if that is longer; a queue takes jobs in the order in which they\n"
        "become ready; longest chain first is the order of the priorities that the workflow gives its jobs\n"
        "(`src/leaklab/planning/devices.py`).\n\n"
    )
    paper = ["| scale | workers | ideal h | queue h | queue / ideal | longest chain first / ideal | longest job min |",
             "| --- | --: | --: | --: | --: | --: | --: |"]  # fmt: skip
    paper += [
        f"| {r['scale']} | {r['workers']} | {r['ideal_hours']:.2f} | {r['queue_hours']:.2f} | "
        f"{r['queue_over_ideal']:.3f} | {r['longest_first_over_ideal']:.3f} | {r['longest_job_minutes']:.0f} |"
        for r in rows
    ]
    slept = ["", f"Rehearsed by Snakemake itself, with a sleep of {PER_HOUR:g} s for an hour of work:", "",
             "| workers | order | on paper s | Snakemake s | of these before the first job | added per job s |",
             "| --: | --- | --: | --: | --: | --: |"]  # fmt: skip
    slept += [
        f"| {r['workers']} | {r['order']} | {r['planned_seconds']:.0f} | {r['seconds']:.0f} | "
        f"{r['start_seconds']:.0f} | {r['added_seconds_per_job']:.2f} |"
        for r in real
    ]
    return head + "\n".join([*paper, *(slept if real else [])]) + "\n"


def table(rows: Sequence[Row]) -> str:
    """Return all lines as CSV."""
    names = list(dict.fromkeys(name for line in rows for name in line))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in line.items()} for line in rows)
    return text.getvalue()


if __name__ == "__main__":
    main()
