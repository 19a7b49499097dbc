"""What an item is expected to cost whoever makes it, and whether what was measured can be seen here."""

from collections.abc import Iterable, Sequence

from leaklab.items.items import Item
from leaklab.planning.estimate import datasets_of, estimate, source_of
from leaklab.planning.outputs import how_to_make, records_behind
from leaklab.planning.plan import Job, Plan
from leaklab.records.config import Scale
from leaklab.report.site.pages import DataSource, Recipe


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
