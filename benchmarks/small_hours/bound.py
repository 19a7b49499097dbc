"""What the products of a scale's jobs would take at the peak of a core, beside the hours that the jobs took."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from paper_hours.counting import Count
from paper_hours.kinds import Kind, units_of, words_of

from leaklab.planning.plan import Plan
from leaklab.planning.resources import cost
from leaklab.records.errors import UserError
from small_hours.recorded import Spent
from small_hours.tables import BY

GROUPS = "rule and model"


def core_peaks(roofline: Path) -> dict[str, float]:
    """Return the GFLOP/s of a core for each precision: of the page of the roofline, and half of it for twice the bits.

    Raises:
        UserError: the page says no rate.
    """
    said = re.search(r"([\d.,]+) GFLOP/s \(sgemm", roofline.read_text(encoding="utf-8"))
    if said is None:
        raise UserError(f"{roofline}: it says no GFLOP/s of sgemm: run python -m roofline")
    rate = float(said[1].replace(",", ""))
    return {"float32": rate, "float64": rate / 2}


def products_of(one: Spent, plan: Plan, kinds: Mapping[str, Kind]) -> tuple[float, str]:
    """Return the operations of a job's products, and their precision; those of a search that it did, as recorded."""
    words = words_of(one.job.spec)
    if not words:
        return 0.0, "float32"
    count: Count = kinds[words].count * units_of(one.job, plan)
    most = cost(one.job.spec).evaluations
    return count.flop * (one.evaluations / most if one.evaluations and most else 1.0), kinds[words].precision


def bounds(
    spent: Iterable[Spent], plan: Plan, kinds: Mapping[str, Kind], peaks: Mapping[str, float]
) -> list[dict[str, Any]]:
    """Return a line for all jobs, then one for each rule and model, those with most hours first.

    Args:
        spent: all jobs.
        plan: that has them.
        kinds: see ``paper_hours.kinds``.
        peaks: precision -> GFLOP/s.
    """
    own: dict[str, dict[str, Any]] = {}
    for one in spent:
        flop, precision = products_of(one, plan, kinds)
        for name in ("all", BY[GROUPS](one)):
            line = own.setdefault(name, {"name": name, "jobs": 0, "hours": 0.0, "flop": 0.0, "hours_at_peak": 0.0})
            line["jobs"] += 1
            line["hours"] += one.seconds / 3600
            line["flop"] += flop
            line["hours_at_peak"] += flop / peaks[precision] / 1e9 / 3600
    rows = sorted(own.values(), key=lambda line: (line["name"] != "all", -line["hours"]))
    return [line | peaks for line in rows if line["flop"]]
