"""What an item cost, summed over the records behind it."""

from collections.abc import Sequence

from leaklab.records.ledger import Entry
from leaklab.report.site.pages import Cost


def cost_of(entries: Sequence[Entry]) -> Cost:
    """Return wall and CPU time of all jobs, one after another, and the memory of the largest."""
    return Cost(
        jobs=len(entries),
        wall_seconds=sum(entry.content["wall_seconds"] for entry in entries),
        cpu_seconds=sum(entry.content["cpu_seconds"] for entry in entries),
        peak_memory_mib=max(entry.content["peak_memory_mb"] for entry in entries),
        devices=tuple(sorted({entry.content["device"] for entry in entries})),
    )
