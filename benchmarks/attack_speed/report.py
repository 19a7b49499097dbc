"""The report: a page to read and a table of every single run."""

from collections.abc import Sequence

import pandas as pd
from training_speed.contest import Results
from training_speed.contestants import OURS, Contestant
from training_speed.report import NOTHING, markdown, unique, wrapped

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
    workloads, contestants = unique(row.workload for row in rows), unique(row.contestant for row in rows)
    others = [contestant for contestant in contestants if contestant.name != OURS]
    cells = {(row.workload.name, row.contestant.name): _headline(row) for row in rows}
    overview = [[work.title, *(cells.get((work.name, other.name), NOTHING) for other in others)] for work in workloads]
    parts = [
        "# Attack speed",
        f"`{command}` made this page on {machine}.",
        "## Processor time per iteration and trial, as a multiple of ours",
        "Above 1 this project's engine is ahead. Where a target is given: processor time per image that reached it.",
        markdown(["workload", *(other.name for other in others)], overview),
        *(part for workload in workloads for part in _section(rows, workload, results)),
        _notes(contestants, repeats),
    ]
    return wrapped("\n\n".join(parts) + "\n")


def table(results: Results) -> pd.DataFrame:
    """Return one line per run, and one per failure."""
    lines = [
        {"workload": workload, "contestant": contestant, "repeat": repeat} | vars(run) | {"objective": _listed(run)}
        for (workload, contestant), runs in results.runs.items()
        for repeat, run in enumerate(runs, start=1)
    ]
    lines += [
        {"workload": workload, "contestant": contestant, "reason": reason}
        for (workload, contestant), reason in results.failures.items()
    ]
    order = ["workload", "contestant", "repeat", "cpu", "iterations", "attack_cpu", "attack_wall", "startup_cpu"]
    order += ["startup_wall", "parameters", "reached", "found", "psnr", "objective", "reason"]
    return pd.DataFrame(lines, columns=order).astype(
        dict.fromkeys(["repeat", "iterations", "parameters", "reached"], "Int64")
    )


def _listed(run: object) -> str:
    return " ".join(f"{value:.8g}" for value in vars(run)["objective"])


def _headline(row: Row) -> str:
    if row.figures is None:
        return NOTHING
    return _ratio(row.figures.ratio if row.workload.target is None else row.figures.attack_ratio)


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
        _ratio(figures.ratio),
        f"{figures.rate:,.1f}",
        *_whole(figures, row.workload),
    ]
    if row.workload.target is not None:
        cells.append(f"{figures.reached} of {row.workload.trials} in {figures.iterations:,} iterations")
    if row.workload.quality:
        cells.append(NOTHING if figures.psnr is None else f"{figures.psnr:.2f} dB")
    return cells


def _whole(figures: Figures, workload: Workload) -> list[str]:
    attack = f"{figures.attack:,.2f}", _ratio(figures.attack_ratio)
    # a trial that ends at its target has not searched to the end
    return [*attack, f"{figures.objective:.7g}", f"{figures.found:.3g}" if workload.target is None else NOTHING]


def _ratio(ratio: float | None) -> str:
    return NOTHING if ratio is None else f"{ratio:.2f}"


def _notes(contestants: Sequence[Contestant], repeats: int) -> str:
    runs = f"Medians of {repeats} runs" if repeats > 1 else "One run each"
    lines = [
        "## How it was measured",
        *(f"* **{contestant.name}**: {contestant.what}." for contestant in contestants),
        f"* {runs}; contestants take turns. Each run is a process of its own with one thread on one processor.",
        "* All get the same network, observed gradients and starts from one file. At a common point their objectives "
        f"are compared, in float64, with a plain computation; a run that differs by more than {SAME:g} is refused, and "
        "so is one that did another number of iterations or was faster than the measured peak allows.",
        "* An iteration is one evaluation of value and derivative with the step that follows, of one trial; it is "
        "counted where it happens and lasts until the next evaluation. An attack is everything after the start-up, "
        "divided by the trials.",
        "* 'objective' is the value at the common points, 'found' the smallest that a trial has seen (breaching "
        "reports it at the beginning of each step of its optimizer only, which takes up to "
        "20 iterations of L-BFGS); both are means over the trials.",
        "* 'PSNR' is that of the image that was evaluated last, the median over the trials; these attacks run once.",
        "* The total variation of IG is breaching's, with zeros beyond the border, for all.",
    ]
    return "\n".join([lines[0], "", *lines[1:]])
