"""What the plan says of every item of scale small, beside what its runs took."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd

from leaklab.items.items import load_items
from leaklab.planning.estimate import estimate
from leaklab.planning.memory import peak_mb
from leaklab.planning.plan import build_plan

COSTS = Path("results/small/costs.csv")


def compared(before: Mapping[str, float]) -> Iterator[dict[str, object]]:
    """Yield a line for each item that was run.

    Args:
        before: item -> what the plan said of it before the curves were measured, kept in the table.
    """
    plan = build_plan(load_items(), ("small",))
    for row in pd.read_csv(COSTS).to_dict("records"):
        item = plan.items[row["item"]]
        jobs = plan.jobs_of("small", item)
        found = estimate(jobs)
        yield {
            "item": item.key, "jobs": len(jobs), "before_seconds": before.get(item.key, float("nan")),
            "most_seconds": round(found.seconds, 1), "likely_seconds": round(found.likely_seconds, 1),
            "measured_seconds": row["cpu_seconds"],
            "likely_mib": round(max((peak_mb(job.spec) for job in jobs), default=0.0)),
            "measured_mib": row["peak_memory_mib"],
        }  # fmt: skip
