"""The page, made of the tables alone."""

from pathlib import Path
from typing import Any

import pandas as pd
from speed.page import markdown, wrapped

from leaklab.records.files import write_text

PAGE, TABLE, JOBS, AGAIN = "small_hours.md", "small_hours.csv", "small_hours_jobs.csv", "small_hours_again.csv"
BOUND, GAINED = "small_hours_bound.csv", "small_hours_gained.csv"
KINDS, ROOFLINE = "small_hours_kinds.csv", "roofline.md"
CORES, GOAL_HOURS, SHOWN, JOBS_SHOWN = 2, 5, 30, 25
HEADS = ["", "jobs", "processor hours", "share", "of these recorded", "evaluations", "longest job, s"]


def write_page(folder: Path) -> str:
    """Write the page from the tables of a folder, and return it."""
    text = page(*(lines_of(folder / name) for name in (TABLE, JOBS, AGAIN, BOUND, GAINED)))
    write_text(folder / PAGE, text)
    return text


def lines_of(file: Path) -> pd.DataFrame:
    """Return a table, its empty cells as empty texts; without lines where there is no file."""
    return pd.read_csv(file, keep_default_na=False) if file.is_file() else pd.DataFrame()


def page(table: pd.DataFrame, jobs: pd.DataFrame, again: pd.DataFrame, bound: pd.DataFrame, then: pd.DataFrame) -> str:
    """Return the page in Markdown.

    Args:
        table: a line for all jobs, and one for each group of them.
        jobs: the longest.
        again: jobs that were run by two codes; may be empty.
        bound: what the products of all jobs, and of each group, would take at the peak; may be empty.
        then: what all jobs, and those like one of ``again``, would take by the code of today; may be empty.
    """
    rows: list[dict[Any, Any]] = table.to_dict("records")
    whole, groups = rows[0], rows[1:]
    parts = ["# Where the hours of scale `small` go", *_intro(whole)]
    for by in dict.fromkeys(row["by"] for row in groups):
        own = [row for row in groups if row["by"] == by]
        lines = [_group(row, whole["hours"]) for row in own[:SHOWN]]
        rest = f"The other {len(own) - SHOWN} are in [{TABLE}]({TABLE})." if len(own) > SHOWN else ""
        parts += [f"## By {by}", markdown(HEADS, lines), *([rest] if rest else [])]
    parts += ["## The longest jobs", markdown(["", "seconds", "evaluations", "items"], [_job(row) for row in
              jobs.to_dict("records")[:JOBS_SHOWN]]),
              f"Seconds with ~ are shares, see above. More of them are in [{JOBS}]({JOBS})."]  # fmt: skip
    if len(bound):
        parts += _bound(bound)
    if len(again):
        parts += _again(again)
    if len(then):
        parts += _then(then)
    return wrapped("\n\n".join(parts) + "\n")


def _intro(whole: dict[Any, Any]) -> list[str]:
    hours, goal = float(whole["hours"]), GOAL_HOURS * CORES
    return [
        "`PYTHONPATH=benchmarks .venv/bin/python -m small_hours` made this page of the published costs "
        "(`results/small/costs.csv`), the records of runs in the archives beside the tables, and the plan.",
        f"**{hours:.1f} processor hours** for {whole['jobs']:,} jobs, each counted once, that is "
        f"{hours / CORES:.1f} hours on {CORES} cores that do nothing else. The goal is {GOAL_HOURS} hours on {CORES} "
        f"cores, {goal} processor hours: {hours / goal:.1f} times less.",
        f"{whole['recorded_hours']:.1f} of the hours are those of the jobs' own records, each by the code and on the "
        "day of its run, start of its process and imports included where it had no fork server; these jobs took "
        f"{whole['recorded_wall_hours']:.1f} hours of the clock, as the machine was shared. The others, of items whose "
        "archives hold no records, are what their items took, shared out by the plan's estimates.",
    ]


def _group(row: dict[Any, Any], hours: float) -> list[str]:
    evaluations = f"{row['evaluations']:,}" if row["evaluations"] else "-"
    return [str(row["name"]), f"{row['jobs']:,}", f"{row['hours']:.2f}", f"{row['hours'] / hours:.1%}",
            f"{row['recorded_hours']:.2f}", evaluations, f"{row['longest_seconds']:.0f}"]  # fmt: skip


def _job(row: dict[Any, Any]) -> list[str]:
    seconds = f"{'' if str(row['recorded']) == 'True' else '~'}{row['seconds']:.0f}"
    return [str(row["job"]), seconds, f"{row['evaluations']:,}" if row["evaluations"] else "-", str(row["items"])]


def _bound(bound: pd.DataFrame) -> list[str]:
    rows: list[dict[Any, Any]] = bound.to_dict("records")
    whole, heads = rows[0], ["", "jobs", "processor hours", "PFLOP", "hours at the peak", "share of the peak"]
    lines = [
        [str(row["name"]), f"{row['jobs']:,}", f"{row['hours']:.2f}", f"{row['flop'] / 1e15:.3g}",
         f"{row['hours_at_peak']:.2f}", f"{row['hours_at_peak'] / max(row['hours'], 1e-9):.0%}"]
        for row in [*rows[1 : SHOWN + 1], whole]
    ]  # fmt: skip
    return [
        "## What bounds them",
        "The products that the jobs ask for, counted as in [scale paper on a GPU](paper_hours.md) and, of a search "
        "that ended early, for the evaluations that it did; and the hours that they would take if a core did nothing "
        f"else and as fast as large matrix products do on the machine of the [roofline]({ROOFLINE}): "
        f"{whole['float32']:.0f} GFLOP/s in float32, and half of it in float64. The hours are of several machines, not "
        "all as fast. Groups without counted products have no row; *all* has them, too.",
        markdown(heads, lines),
    ]


def _again(again: pd.DataFrame) -> list[str]:
    lines = [
        [str(row["job"]), str(row["changed"]) or "-", f"{row['seconds_before']:.2f}", f"{row['seconds']:.2f}",
         f"{row['times_faster']:.2f}", "yes" if str(row["same_bytes"]) == "True" else "no"]
        for row in again.to_dict("records")
    ]  # fmt: skip
    heads = ["", "with", "s before", "s", "times faster", "same bytes"]
    machines = "; ".join(sorted({str(row["machine"]) or "one that was not noted" for row in again.to_dict("records")}))
    return [
        "## Jobs, before and after",
        "Processor seconds of a job, without what a fork of the call's server has imported; the least of some runs by "
        "either code in turn (`--again`, see the head of `__main__.py`). Many are cut short by fewer iterations or "
        "rounds. Same bytes: all runs by both codes wrote the same files. A machine that others use makes the same run "
        f"longer or shorter: ratios near 1 say nothing. Measured on {machines}; "
        f"what compiled steps gain on the machine of the [roofline]({ROOFLINE}) stands there. Commits are in "
        f"[{AGAIN}]({AGAIN}).",
        markdown(heads, lines),
    ]


def _then(then: pd.DataFrame) -> list[str]:
    rows: list[dict[Any, Any]] = then.to_dict("records")
    whole, groups = rows[0], rows[1:]
    lines = [
        [str(row["name"]), f"{row['jobs']:,}", f"{row['hours']:.2f}", f"{row['hours_then']:.2f}",
         f"{row['hours'] / max(row['hours_then'], 1e-9):.2f}"]
        for row in [*groups, whole]
    ]  # fmt: skip
    rest = float(whole["hours"]) - sum(float(row["hours"]) for row in groups)
    return [
        "## By the code of today",
        "If jobs of a rule, model and method gain what the job of theirs above gained, the least where there are "
        "several, and those without one gain nothing: an estimate, as few jobs stand for many. Jobs that were recorded "
        "after the older of the two codes was committed gain nothing either; those without a record count as older.",
        markdown(["", "jobs", "processor hours", "by the code of today", "times faster"], lines),
        f"**{whole['hours_then']:.1f} processor hours**, {whole['hours_then'] / CORES:.1f} on {CORES} cores, "
        f"{rest:.1f} of them as before because no job like them was run by two codes.",
    ]
