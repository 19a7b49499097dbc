"""What an item cost, summed over the records behind it, and what it is expected to cost whoever makes it."""

from collections.abc import Iterable, Sequence

from leaklab.planning.estimate import datasets_of, estimate, source_of
from leaklab.planning.outputs import records_behind
from leaklab.planning.plan import Job, Plan
from leaklab.planning.state import how_to_make
from leaklab.records.config import Scale
from leaklab.records.items import Item
from leaklab.records.ledger import Entry
from leaklab.report.site.pages import Cost, DataSource, Recipe


def cost_of(entries: Sequence[Entry]) -> Cost:
    """Return wall and CPU time of all jobs, one after another, and the memory of the largest."""
    return Cost(
        jobs=len(entries),
        wall_seconds=sum(entry.content["wall_seconds"] for entry in entries),
        cpu_seconds=sum(entry.content["cpu_seconds"] for entry in entries),
        peak_memory_mib=max(entry.content["peak_memory_mb"] for entry in entries),
        devices=tuple(sorted({entry.content["device"] for entry in entries})),
    )


def recipe_of(item: Item, scale: Scale, jobs: Sequence[Job]) -> Recipe:
    """Return how to make an item, with the plan's estimate for all its jobs, whether or not they were run here."""
    expected = estimate(jobs)
    return Recipe(
        command=how_to_make(item, scale),
        plan=f"leaklab plan {item.paper} {item.item} --scale {scale}",
        jobs=expected.jobs,
        cpu_seconds=expected.seconds,
        data=tuple(DataSource(name, source_of(name)) for name in datasets_of(jobs)),
    )


def absent_records(plan: Plan, scale: Scale, items: Iterable[Item]) -> int:
    """Return how many records of runs and data sets behind some items are not in this checkout."""
    return sum(not path.is_file() for path in records_behind(plan, scale, items))
