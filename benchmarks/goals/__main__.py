"""Write the page of all goals of speed from the tables of the benchmarks; ``make bench`` ends with it.

PYTHONPATH=benchmarks .venv/bin/python -m goals                    writes benchmarks/goals.md
PYTHONPATH=benchmarks .venv/bin/python -m goals --wait demo test   runs make demo, make test in fresh clones first
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd
from speed.command import FOLDER
from speed.machine import description
from speed.page import wrapped

from goals import demo
from goals.missed import WHY
from goals.page import page
from goals.rows import CORES, Row, every_row
from goals.suite import lines, seconds_of_tests
from leaklab.records.files import write_table, write_text

TABLE = FOLDER / "goals.csv"
SUITE, DEMO = "suite.csv", "demo.csv"


def main(arguments: Sequence[str] | None = None) -> None:
    """Wait for what is asked for, and write the page."""
    parser = argparse.ArgumentParser("goals", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--wait", nargs="+", choices=("demo", "test"), default=[], help="take the time of these first")
    for target in parser.parse_args(arguments).wait:
        keep(target, seconds_of(target))
    rows = every_row(FOLDER)
    text = wrapped(page(rows, WHY, dict(_parts(rows))))
    write_text(FOLDER / "goals.md", text)
    sys.stdout.write(text)


def _parts(rows: Sequence[Row]) -> Iterator[tuple[str, list[str]]]:
    """Yield what a stranger waits for, with the lines on where its time goes and how it was measured."""
    waited = pd.read_csv(TABLE).set_index("what")["machine"].to_dict() if TABLE.is_file() else {}
    seconds = {row.missed: row.value for row in rows if row.missed in waited}
    for what, name in (("make demo", DEMO), ("make test", SUITE)):
        if what in seconds and (FOLDER / name).is_file():
            table = pd.read_csv(FOLDER / name)
            own = demo.lines(table, seconds[what], CORES) if name == DEMO else lines(table)
            yield what, [f"Measured on {waited[what]}.", "", *own]


def seconds_of(target: str) -> float:
    """Return the seconds on the clock of ``make TARGET`` in a fresh clone that is set up.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "leaklab"
        subprocess.run(["git", "clone", "--quiet", str(FOLDER.parent), str(clone)], check=True)
        subprocess.run(["make", "setup"], cwd=clone, check=True, stdout=subprocess.DEVNULL)
        report = Path(folder) / "report.xml"
        told = {**os.environ, "PYTEST_ADDOPTS": f"--junitxml={report}"}
        began, since = time.monotonic(), time.time()
        subprocess.run(["make", target], cwd=clone, check=True, stdout=subprocess.DEVNULL, env=told)
        seconds = time.monotonic() - began
        if report.is_file():
            write_table(FOLDER / SUITE, seconds_of_tests(report))
        if target == "demo":
            write_table(FOLDER / DEMO, demo.seconds_of_jobs(clone, since))
        return seconds


def keep(target: str, seconds: float) -> None:
    """Add a line to the table."""
    line = pd.DataFrame([{"what": f"make {target}", "seconds": round(seconds, 1), "machine": description()}])
    write_table(TABLE, pd.concat([pd.read_csv(TABLE), line]) if TABLE.is_file() else line)


if __name__ == "__main__":
    main()
