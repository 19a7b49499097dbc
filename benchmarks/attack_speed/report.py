"""The report: a page to read and a table of every single run."""

from collections.abc import Sequence

import pandas as pd
import speed.page
from speed.contest import Results
from speed.page import NOTHING, markdown, ratio

from attack_speed.rows import Figures, Row
from attack_speed.runs import SAME
from attack_speed.workloads import Workload

HEADS = ("contestant", "CPU ms/iteration", "x ours", "iterations/s", "CPU s/attack", "x ours", "objective", "found")


def page(rows: Sequence[Row], results: Results, machine: str, command: str, repeats: int) -> str:
    """Return the report as Markdown.

    Args:
        rows: what came out.
        results: for the peaks and the work of an iteration.
        machine: one line.
        command: what made the report.
        repeats: measurements of each contestant.
    """
    intro = [
        "# Attack speed",
        f"`{command}` made this page on {machine}.",
        "## Processor time per iteration and trial, as a multiple of ours",
        "Above 1 this project's engine is ahead. Where a target is given: processor time per image that reached it.",
    ]
    return speed.page.page(intro, rows, _headline, lambda workload: _section(rows, workload, results), repeats, _how)


def table(results: Results) -> pd.DataFrame:
    """Return one line per run, and one per failure."""
    columns = ["cpu", "iterations", "attack_cpu", "attack_wall", "startup_cpu", "startup_wall", "parameters", "reached"]
    columns += ["found", "psnr", "objective"]
    counts = ["iterations", "parameters", "reached"]
    return speed.page.table(results, columns, counts, lambda run: vars(run) | {"objective": _listed(run)})


def _listed(run: object) -> str:
    return " ".join(f"{value:.8g}" for value in vars(run)["objective"])


def _headline(row: Row) -> str:
    if row.figures is None:
        return NOTHING
    return ratio(row.figures.ratio if row.workload.target is None else row.figures.attack_ratio)


def _section(rows: Sequence[Row], workload: Workload, results: Results) -> list[str]:
    work = f"{workload.trials} trials, {workload.iterations} iterations"
    if workload.target is not None:
        work += f" of at most {workload.starts} starts each, until {workload.target:g} dB"
    if cost := results.costs.get(workload.name):
        work += f"; {cost.parameters:,} weights, {cost.flop / 1e6:,.1f} MFLOP for one gradient"
    heads = [*HEADS, *(["reached"] if workload.target is not None else ["PSNR"] if workload.quality else [])]
    lines = [_line(row, len(heads)) for row in rows if row.workload == workload]
    return [f"## {workload.title}", f"`{workload.name}`: {work}.", markdown(heads, lines)]


def _line(row: Row, width: int) -> list[str]:
    name, figures = row.contestant.name, row.figures
    if figures is None:
        return [name, row.reason, *[NOTHING] * (width - 2)]
    cells = [
        name,
        f"{figures.cpu_ms:,.2f}",
        ratio(figures.ratio),
        f"{figures.rate:,.1f}",
        *_whole(figures, row.workload),
    ]
    if row.workload.target is not None:
        cells.append(f"{figures.reached} of {row.workload.trials} in {figures.iterations:,} iterations")
    if row.workload.quality:
        cells.append(NOTHING if figures.psnr is None else f"{figures.psnr:.2f} dB")
    return cells


def _whole(figures: Figures, workload: Workload) -> list[str]:
    attack = f"{figures.attack:,.2f}", ratio(figures.attack_ratio)
    # a trial that ends at its target has not searched to the end
    return [*attack, f"{figures.objective:.7g}", f"{figures.found:.3g}" if workload.target is None else NOTHING]


def _how(runs: str) -> list[str]:
    return [
        f"{runs}; contestants take turns. Each run is a process of its own with one thread on one processor.",
        "All get the same network, observed gradients and starts from one file. At a common point their objectives "
        f"are compared, in float64, with a plain computation; a run that differs by more than {SAME:g} is refused, and "
        "so is one that did another number of iterations or was faster than the measured peak allows.",
        "An iteration is one evaluation of value and derivative with the step that follows, of one trial; it is "
        "counted where it happens and lasts until the next evaluation. An attack is everything after the start-up, "
        "divided by the trials.",
        "'objective' is the value at the common points, 'found' the smallest that a trial has seen (breaching "
        "reports it at the beginning of each step of its optimizer only, which takes up to "
        "20 iterations of L-BFGS); both are means over the trials.",
        "'PSNR' is that of the image that was evaluated last, the median over the trials; these attacks run once.",
        "The total variation of IG is breaching's, with zeros beyond the border, for all.",
    ]
