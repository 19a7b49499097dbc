"""Where the time of ``make demo`` goes: processor seconds of its jobs by rule, and what is left of the cores' time."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pandas as pd

RECORDS = "*run.json"


def seconds_of_jobs(checkout: Path, since: float) -> pd.DataFrame:
    """Return a row for each rule from the records of jobs that began since then.

    Args:
        checkout: in which the demo was made.
        since: seconds since 1970.

    Returns:
        Columns ``rule``, ``jobs`` and ``seconds`` (of a processor), most seconds first.
    """
    own = []
    for folder in ("results", "figures", "data"):
        for path in (checkout / folder).rglob(RECORDS):
            record = json.loads(path.read_text(encoding="utf-8"))
            if datetime.fromisoformat(record["started"]).timestamp() >= int(since):
                own.append({"rule": record["rule"], "seconds": record["cpu_seconds"]})
    found = pd.DataFrame(own, columns=["rule", "seconds"]).groupby("rule")["seconds"].agg(jobs="count", seconds="sum")
    found["seconds"] = found["seconds"].round(1)
    return found.reset_index().sort_values(["seconds", "rule"], ascending=[False, True]).reset_index(drop=True)


def lines(table: pd.DataFrame, seconds: float, cores: int) -> Iterator[str]:
    """Yield the lines of a page on such a table.

    Args:
        table: see ``seconds_of_jobs``.
        seconds: on the clock of the demo.
        cores: that it had.
    """
    offered, jobs = seconds * cores, table["seconds"].sum()
    yield (
        f"In the last run, {table['jobs'].sum():,} jobs with a record took {jobs:,.0f} of the {offered:,.0f} seconds "
        f"of {cores} cores. The rest is Snakemake, which plans, notes and starts one job after another in one process, "
        "the start of programs, and cores without a job that is ready: at the beginning, and at the end, where the "
        "verdict waits for all tables and the report for the verdict."
    )
    yield ""
    yield "| rule | jobs | seconds | of the cores' |"
    yield "| --- | --: | --: | --: |"
    for row in table.itertuples():
        yield f"| {row.rule} | {row.jobs:,} | {row.seconds:,.1f} | {row.seconds / offered:.1%} |"
    yield f"| **all** | {table['jobs'].sum():,} | {jobs:,.1f} | {jobs / offered:.1%} |"
