"""Parts of a page in Markdown, and of the table of every single run."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from textwrap import fill
from typing import Any, TypeVar

import pandas as pd

from speed.contest import Results
from speed.contestants import OURS, Contestant
from speed.rows import Row

NOTHING, WIDTH = "-", 120
T = TypeVar("T")


def page(
    intro: Sequence[str],
    rows: Sequence[Row[Any, Any]],
    headline: Callable[[Any], str],
    section: Callable[[Any], Sequence[str]],
    repeats: int,
    how: Callable[[str], Sequence[str]],
) -> str:
    """Return a page in Markdown.

    Args:
        intro: what stands before the first table.
        rows: what came out.
        headline: shows a row in the first table.
        section: the parts of a workload.
        repeats: measurements of each contestant.
        how: see ``notes``.
    """
    sections = [part for workload in unique(row.workload for row in rows) for part in section(workload)]
    parts = [*intro, overview(rows, headline), *sections, notes(rows, repeats, how)]
    return wrapped("\n\n".join(parts) + "\n")


def overview(rows: Sequence[Row[Any, Any]], headline: Callable[[Any], str]) -> str:
    """Return a table of one line per workload and one column per contestant but ours; ``headline`` shows a row."""
    workloads, contestants = unique(row.workload for row in rows), unique(row.contestant for row in rows)
    cells = {(row.workload.name, row.contestant.name): headline(row) for row in rows}
    others = [contestant.name for contestant in contestants if contestant.name != OURS]
    lines = [[work.title, *(cells.get((work.name, other), NOTHING) for other in others)] for work in workloads]
    return markdown(["workload", *others], lines)


def ratio(value: float | None) -> str:
    """Return a multiple of ours."""
    return NOTHING if value is None else f"{value:.2f}"


def notes(rows: Sequence[Row[Any, Any]], repeats: int, how: Callable[[str], Sequence[str]]) -> str:
    """Return the last section: who took part, then how it was measured, said after e.g. ``One run each``."""
    contestants: list[Contestant] = unique(row.contestant for row in rows)
    runs = f"Medians of {repeats} runs" if repeats > 1 else "One run each"
    who = [f"* **{contestant.name}**: {contestant.what}." for contestant in contestants]
    return "\n".join(["## How it was measured", "", *who, *(f"* {line}" for line in how(runs))])


def table(
    results: Results,
    columns: Sequence[str],
    counts: Sequence[str],
    fields_of: Callable[[Any], Mapping[str, Any]] = vars,
) -> pd.DataFrame:
    """Return one line per run, and one per failure.

    Args:
        results: of the contest.
        columns: behind workload, contestant and repeat.
        counts: those that are whole numbers.
        fields_of: a measurement -> its columns.
    """
    lines = [
        {"workload": workload, "contestant": contestant, "repeat": repeat, **fields_of(run)}
        for (workload, contestant), runs in results.runs.items()
        for repeat, run in enumerate(runs, start=1)
    ]
    lines += [
        {"workload": workload, "contestant": contestant, "reason": reason}
        for (workload, contestant), reason in results.failures.items()
    ]
    if "gflops" in columns:
        lines += [{"workload": "peak", "contestant": kind, "gflops": rate} for kind, rate in results.peaks.items()]
    order = ["workload", "contestant", "repeat", *columns, "reason"]
    return pd.DataFrame(lines, columns=order).astype(dict.fromkeys(["repeat", *counts], "Int64"))


def wrapped(text: str) -> str:
    """Return the text with prose in lines of at most ``WIDTH`` characters; tables stay as they are."""
    return "\n".join(_wrapped_line(line) for line in text.split("\n"))


def _wrapped_line(line: str) -> str:
    if line.startswith("|"):
        return line
    indent = "  " if line.startswith("* ") else ""
    return fill(line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def markdown(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown; all columns but the first are aligned right."""
    marks = ["---", *["--:"] * (len(heads) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [heads, marks, *lines])


def unique(items: Iterable[T]) -> list[T]:
    """Return the items without repetitions, in order."""
    return list(dict.fromkeys(items))
