"""What is seen while a defense is judged: rows as they come, and on a terminal a line that says what goes on."""

import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.status import Status

from leaklab.guests.judging import Watch


class Progress(Watch):
    """Tells on standard error: rows where they are asked for, and on a terminal one line that is drawn again and again.

    Args:
        budget: seconds.
        rows: say what each attacker read.
    """

    def __init__(self, budget: float, *, rows: bool) -> None:
        self.budget, self.rows = budget, rows
        terminal = sys.stderr.isatty()
        self.console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True, force_terminal=terminal)
        self.status = Status("", console=self.console) if terminal else None
        self.phases: dict[str, str] = {}

    def __enter__(self) -> "Progress":
        if self.status:
            self.status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.status:
            self.status.stop()

    def phase(self, network: str, phase: str) -> None:
        """Show what is done on a network."""
        self.phases.pop("", None)  # what came before the networks is over
        self.phases[network] = f"{network}: {phase.removesuffix(f' on the {network}')}" if network else phase

    def row(self, row: Mapping[str, Any]) -> None:
        """Say what an attacker read."""
        if self.rows and row.get("scores") and row["attacker"] != "guess":
            mean = sum(row["scores"]) / len(row["scores"])
            of = f" on {row['defense']}" if "defense" in row else ""
            self.console.print(f"{row['network']}: {row['attacker']}, {row['by']}{of}: {mean:.1f} dB")

    def spent(self, seconds: float) -> None:
        """Show how much of the budget is gone."""
        if self.status:
            share = f"{100 * min(1.0, seconds / self.budget):.0f} % of the budget"
            self.status.update("; ".join([share, *self.phases.values()]))
