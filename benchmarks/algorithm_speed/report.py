"""The report: a page to read and a table of every single run."""

from collections.abc import Sequence

import pandas as pd
import speed.page
from speed.contest import Results
from speed.page import NOTHING, markdown, ratio
from training_speed.rows import Row
from training_speed.workloads import Workload


def page(rows: Sequence[Row], results: Results, machine: str, command: str, repeats: int) -> str:
    """Return the report as Markdown.

    Args:
        rows: what came out.
        results: of the contest.
        machine: one line.
        command: what made the report.
        repeats: measurements of each contestant.
    """
    intro = [
        "# Training steps of HyperFL and its baselines",
        f"`{command}` made this page on {machine}.",
        "## Processor time per client step, as a multiple of a step of FedAvg",
    ]
    return speed.page.page(
        intro,
        rows,
        lambda row: ratio(row.figures and row.figures.ratio),
        lambda workload: _section(rows, workload),
        repeats,
        _how,
    )


def table(results: Results) -> pd.DataFrame:
    """Return one line per run and one per failure."""
    columns = ["cpu", "wall", "startup_cpu", "startup_wall", "steps", "parameters", "cpus"]
    return speed.page.table(results, columns, ["steps", "parameters", "cpus"])


def _section(rows: Sequence[Row], workload: Workload) -> list[str]:
    lines = [_line(row) for row in rows if row.workload == workload]
    return [f"## {workload.title}", markdown(["algorithm", "CPU ms/step", "x FedAvg"], lines)]


def _line(row: Row) -> list[str]:
    if row.figures is None:
        return [row.contestant.name, row.reason, NOTHING]
    return [row.contestant.name, f"{row.figures.cpu_us / 1e3:,.2f}", ratio(row.figures.ratio)]


def _how(runs: str) -> list[str]:
    return [
        f"{runs}, on one thread, each in a process of its own. The clock starts after imports and one round.",
        "A round has 24 steps of each client, so what is done once a round counts as one of 24.",
        "opacus and the loop train one client, the loop with 6 steps.",
    ]
