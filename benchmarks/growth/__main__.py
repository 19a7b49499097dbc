"""Measure how time and memory grow, fit the exponents, and say what the plan would have said.

PYTHONPATH=benchmarks .venv/bin/python -m growth                what is not in the table yet, then the page
PYTHONPATH=benchmarks .venv/bin/python -m growth --minutes 10   the same, but no new point after so long
PYTHONPATH=benchmarks .venv/bin/python -m growth --quick        the smallest points of each curve, once; prints only
PYTHONPATH=benchmarks .venv/bin/python -m growth --page         what the plan says now, and the page, nothing measured
"""

import argparse
import sys
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd
from speed.costs import one_thread

from growth.items import compared
from growth.measuring import measured
from growth.page import ITEMS, PAGE, PROFILES, TABLE, curves, is_worse, write_page
from growth.profiling import compared as functions
from growth.works import Axis, Work, works
from leaklab.records.files import write_table, write_text

FOLDER = Path("benchmarks")
KEY = ["work", "axis", "value", "repeat"]
REPEATS = 2
LONG_SECONDS = 8.0
"""What takes longer is not repeated."""
Point = tuple[Work, str, Axis, int, int]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is missing, keep each point as soon as it is there, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=float("inf"), help="no new point after so many")
    parser.add_argument("--quick", action="store_true", help="the smallest points, once; prints only")
    parser.add_argument("--page", action="store_true", help="nothing is measured")
    parser.add_argument("--only", default="", help="a kind of work by its name")
    asked = parser.parse_args(arguments)
    one_thread()
    if asked.quick:
        for point in points(quick=True):
            sys.stdout.write(f"{row_of(point)}\n")
        return
    if not asked.page:
        wanted = [point for point in points() if asked.only in ("", point[0].name)]
        missing = measure(wanted, FOLDER / TABLE, 60 * asked.minutes)
        if missing:
            sys.stdout.write(f"{missing} points are missing: call it again\n")
            return
        write_table(FOLDER / PROFILES, profiled(pd.read_csv(FOLDER / TABLE), kept(FOLDER / PROFILES)))
    before = kept(FOLDER / ITEMS)
    said = dict(zip(before["item"], before["before_seconds"], strict=True)) if len(before) else {}
    write_table(FOLDER / ITEMS, pd.DataFrame(compared(said)))
    write_page(FOLDER)
    sys.stdout.write(f"{FOLDER / PAGE}\n")


def kept(table: Path) -> pd.DataFrame:
    """Return a table that was written before; an empty one where there is none."""
    return pd.read_csv(table) if table.is_file() else pd.DataFrame()


def profiled(measured_points: pd.DataFrame, known: pd.DataFrame) -> pd.DataFrame:
    """Return why each curve is worse than linear that is, from what is known and else from a profile."""
    rows: list[Mapping[Hashable, object]] = []
    for work, axis, fit, _ in curves(measured_points):
        if not is_worse(fit):
            continue
        own = known[(known["work"] == work.name) & (known["axis"] == axis)] if len(known) else known
        if len(own):
            rows += own.to_dict("records")
            continue
        before, last = work.axes[axis].points[-2:]
        of_curve: dict[Hashable, object] = {"work": work.name, "axis": axis, "value_before": before, "value": last}
        spec = work.axes[axis].spec
        rows += [{**of_curve, **dict(line)} for line in functions(spec(before), spec(last))]
        sys.stderr.write(f"{rows[-1]}\n")
    return pd.DataFrame(rows)


def points(quick: bool = False) -> Iterator[Point]:
    """Yield every point, all curves once before any is repeated."""
    for repeat in range(1 if quick else REPEATS):
        for work in works():
            for name, axis in work.axes.items():
                for value in axis.points[: axis.quick] if quick else axis.points:
                    yield work, name, axis, value, repeat


def measure(wanted: Sequence[Point], table: Path, seconds: float) -> int:
    """Measure the points that a table does not have, and add each to it; return how many are still missing.

    Args:
        wanted: in this order.
        table: on disk.
        seconds: after which no new point is begun.
    """
    rows = pd.read_csv(table).to_dict("records") if table.is_file() else []
    done = {tuple(row[key] for key in KEY): float(row["cpu_seconds"]) for row in rows}

    def enough(point: Point) -> bool:
        work, axis, _, value, repeat = point
        long = done.get((work.name, axis, value, 0), 0.0) > LONG_SECONDS
        return (work.name, axis, value, repeat) in done or (repeat > 0 and long)

    missing = [point for point in wanted if not enough(point)]
    began = time.monotonic()
    for place, point in enumerate(missing):
        if time.monotonic() - began > seconds:
            return len(missing) - place
        rows.append(row_of(point))
        sys.stderr.write(f"{rows[-1]}\n")
        write_text(table, pd.DataFrame(rows).to_csv(index=False))
    return 0


def row_of(point: Point) -> dict[str, object]:
    """Return the line of a point."""
    work, name, axis, value, repeat = point
    found = {key: round(number, 4) for key, number in asdict(measured(axis.spec(value))).items()}
    return {"work": work.name, "axis": name, "value": value, "repeat": repeat, **found}


if __name__ == "__main__":
    main()
