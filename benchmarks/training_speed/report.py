"""The report: a page to read and a table of every single run."""

from collections.abc import Iterable, Sequence
from textwrap import fill
from typing import TypeVar

import pandas as pd

from training_speed.contest import Results
from training_speed.contestants import OURS, Contestant
from training_speed.rows import Figures, Row
from training_speed.workloads import Workload

NOTHING, WIDTH = "-", 120
T = TypeVar("T")


def page(rows: Sequence[Row], results: Results, machine: str, command: str, repeats: int) -> str:
    """Return the report as Markdown.

    Args:
        rows: what came out.
        results: for the peaks and the work of a step.
        machine: one line.
        command: what made the report.
        repeats: measurements of each contestant.
    """
    workloads, contestants = unique(row.workload for row in rows), unique(row.contestant for row in rows)
    peaks = ", ".join(f"{kind} {rate:.0f}" for kind, rate in results.peaks.items())
    parts = [
        "# Training speed",
        f"`{command}` made this page on {machine}. One thread of it does at most (GFLOP/s, measured in the same run): "
        f"{peaks}.",
        "## Processor time per client step, as a multiple of ours",
        "Above 1 this project's engine is ahead. A client step is one optimizer step of one client.",
        _overview(rows, workloads, contestants),
        *(part for workload in workloads for part in _section(rows, workload, results)),
        _notes(contestants, repeats),
    ]
    return wrapped("\n\n".join(parts) + "\n")


def wrapped(text: str) -> str:
    """Return the text with prose in lines of at most ``WIDTH`` characters; tables stay as they are."""
    return "\n".join(_wrapped_line(line) for line in text.split("\n"))


def _wrapped_line(line: str) -> str:
    if line.startswith("|"):
        return line
    indent = "  " if line.startswith("* ") else ""
    return fill(line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def table(results: Results) -> pd.DataFrame:
    """Return one line per run, and one per failure."""
    lines = [
        {"workload": workload, "contestant": contestant, "repeat": repeat, **vars(run)}
        for (workload, contestant), runs in results.runs.items()
        for repeat, run in enumerate(runs, start=1)
    ]
    lines += [
        {"workload": workload, "contestant": contestant, "reason": reason}
        for (workload, contestant), reason in results.failures.items()
    ]
    lines += [{"workload": "peak", "contestant": kind, "gflops": rate} for kind, rate in results.peaks.items()]
    order = ["workload", "contestant", "repeat", "cpu", "wall", "startup_cpu", "startup_wall", "steps", "parameters"]
    return pd.DataFrame(lines, columns=[*order, "cpus", "gflops", "reason"]).astype(
        dict.fromkeys(["repeat", "steps", "parameters", "cpus"], "Int64")
    )


def _overview(rows: Sequence[Row], workloads: Sequence[Workload], contestants: Sequence[Contestant]) -> str:
    cells = {(row.workload.name, row.contestant.name): _ratio(row.figures) for row in rows}
    others = [contestant.name for contestant in contestants if contestant.name != OURS]
    return markdown(
        ["workload", *others],
        [[work.title, *(cells.get((work.name, other), NOTHING) for other in others)] for work in workloads],
    )


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
        _ratio(figures),
        f"{figures.wall_us:,.1f}",
        f"{figures.gflops:.1f}",
        f"{figures.of_peak:.0%}",
        f"{figures.startup:.1f}",
    ]


def _ratio(figures: Figures | None) -> str:
    return NOTHING if figures is None or figures.ratio is None else f"{figures.ratio:.2f}"


def _notes(contestants: Sequence[Contestant], repeats: int) -> str:
    several = [f"{contestant.name}: {contestant.cpus}" for contestant in contestants if contestant.cpus > 1]
    exceptions = f" ({', '.join(several)})" if several else ""
    runs = f"Medians of {repeats} runs" if repeats > 1 else "One run each"
    lines = [
        "## How it was measured",
        *(f"* **{contestant.name}**: {contestant.what}." for contestant in contestants),
        f"* {runs}; contestants take turns. Each run is a process of its own on one processor"
        f"{exceptions}. Processor time is user and system time of all its processes.",
        "* Same model, batch size and number of steps for all. Steps are counted where they happen, and a run with "
        "another number, or above the measured peak, is refused.",
        "* Start-up is what comes before: imports, data, and one warm-up round, in which contestants compile; nothing "
        "compiled by an earlier run is kept.",
        "* Only our engine knows sweeps: there the cells of one seed share the order of batches. The others do the "
        "cells one after the other in one process, so they start up once.",
    ]
    return "\n".join([lines[0], "", *lines[1:]])


def markdown(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown; all columns but the first are aligned right."""
    marks = ["---", *["--:"] * (len(heads) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [heads, marks, *lines])


def unique(items: Iterable[T]) -> list[T]:
    """Return the items without repetitions, in order."""
    return list(dict.fromkeys(items))
