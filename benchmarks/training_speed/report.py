"""The report: a page to read and a table of every single run."""

from collections.abc import Sequence

import pandas as pd
import speed.page
from speed.contest import Results
from speed.page import NOTHING, markdown, ratio, unique

from training_speed.rows import Row
from training_speed.workloads import Workload


def page(rows: Sequence[Row], results: Results, machine: str, command: str, repeats: int) -> str:
    """Return the report as Markdown.

    Args:
        rows: what came out.
        results: for the peaks and the work of a step.
        machine: one line.
        command: what made the report.
        repeats: measurements of each contestant.
    """
    peaks = ", ".join(f"{kind} {rate:.0f}" for kind, rate in results.peaks.items())
    intro = [
        "# Training speed",
        f"`{command}` made this page on {machine}. One thread of it does at most (GFLOP/s, measured in the same run): "
        f"{peaks}.",
        "## Processor time per client step, as a multiple of ours",
        "Above 1 this project's engine is ahead. A client step is one optimizer step of one client.",
    ]
    return speed.page.page(
        intro,
        rows,
        lambda row: ratio(row.figures and row.figures.ratio),
        lambda workload: _section(rows, workload, results),
        repeats,
        lambda runs: _how(rows, runs),
    )


def table(results: Results) -> pd.DataFrame:
    """Return one line per run, one per failure, and the peaks."""
    columns = ["cpu", "wall", "startup_cpu", "startup_wall", "steps", "parameters", "cpus", "gflops"]
    return speed.page.table(results, columns, ["steps", "parameters", "cpus"])


def _section(rows: Sequence[Row], workload: Workload, results: Results) -> list[str]:
    cost = results.costs.get(workload.name)
    work = f"{workload.steps:,} client steps a run, batches of {workload.batch_size}"
    if cost:
        work += f", {cost.parameters:,} weights, {cost.flop / 1e6:,.1f} MFLOP a step"
    lines = [_line(row) for row in rows if row.workload == workload]
    heads = ["contestant", "CPU us/step", "x ours", "wall us/step", "GFLOP/s", "of peak", "start-up s"]
    return [f"## {workload.title}", f"`{workload.name}`: {work}.", markdown(heads, lines)]


def _line(row: Row) -> list[str]:
    figures, name = row.figures, row.contestant.name
    if figures is None:
        return [name, row.reason, *[NOTHING] * 5]
    return [
        name,
        f"{figures.cpu_us:,.1f}",
        ratio(figures.ratio),
        f"{figures.wall_us:,.1f}",
        f"{figures.gflops:.1f}",
        f"{figures.of_peak:.0%}",
        f"{figures.startup:.1f}",
    ]


def _how(rows: Sequence[Row], runs: str) -> list[str]:
    contestants = unique(row.contestant for row in rows)
    several = [f"{contestant.name}: {contestant.cpus}" for contestant in contestants if contestant.cpus > 1]
    exceptions = f" ({', '.join(several)})" if several else ""
    return [
        f"{runs}; contestants take turns. Each run is a process of its own on one processor"
        f"{exceptions}. Processor time is user and system time of all its processes.",
        "Same model, batch size and number of steps for all. Steps are counted where they happen, and a run with "
        "another number, or above the measured peak, is refused.",
        "Start-up is what comes before: imports, data, and one warm-up round, in which contestants compile; nothing "
        "compiled by an earlier run is kept.",
        "Only our engine knows sweeps: there the cells of one seed share the order of batches. The others do the "
        "cells one after the other in one process, so they start up once.",
    ]
