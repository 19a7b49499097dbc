"""The report on steps of one kind beside another: a page to read and a table of every single run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd
import speed.page
from speed.contest import Results
from speed.page import NOTHING, markdown, ratio

from training_speed.rows import Row
from training_speed.workloads import Workload


@dataclass(frozen=True)
class StepReport:
    """What a page on steps says besides its figures.

    Attributes:
        title: of the page.
        one: what the others are multiples of.
        kind: heading of the column of contestants.
        multiple: heading of the column of multiples.
        how: lines on how it was measured, from how many runs each figure has.
    """

    title: str
    one: str
    kind: str
    multiple: str
    how: Callable[[str], list[str]]

    def page(self, rows: Sequence[Row], results: Results, machine: str, command: str, repeats: int) -> str:
        """Return the report as Markdown.

        Args:
            rows: what came out.
            results: of the contest.
            machine: one line.
            command: what made the report.
            repeats: measurements of each contestant.
        """
        intro = [
            f"# {self.title}",
            f"`{command}` made this page on {machine}.",
            f"## Processor time per client step, as a multiple of {self.one}",
        ]
        return speed.page.page(
            intro,
            rows,
            lambda row: ratio(row.figures and row.figures.ratio),
            lambda workload: self._section(rows, workload),
            repeats,
            self.how,
        )

    def _section(self, rows: Sequence[Row], workload: Workload) -> list[str]:
        lines = [_line(row) for row in rows if row.workload == workload]
        return [f"## {workload.title}", markdown([self.kind, "CPU ms/step", self.multiple], lines)]


def table(results: Results) -> pd.DataFrame:
    """Return one line per run and one per failure."""
    columns = ["cpu", "wall", "startup_cpu", "startup_wall", "steps", "parameters", "cpus"]
    return speed.page.table(results, columns, ["steps", "parameters", "cpus"])


def _line(row: Row) -> list[str]:
    if row.figures is None:
        return [row.contestant.name, row.reason, NOTHING]
    return [row.contestant.name, f"{row.figures.cpu_us / 1e3:,.2f}", ratio(row.figures.ratio)]
