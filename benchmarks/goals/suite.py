"""Where the time of ``make test`` goes: seconds of its tests by folder, and the files that take most."""

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

MOST_FILES = 12


def seconds_of_tests(report: Path) -> pd.DataFrame:
    """Return a row for each file of tests from what ``pytest --junitxml`` wrote.

    Returns:
        Columns ``folder`` (below ``tests``; ``.`` for itself), ``file``, ``tests`` and ``seconds``, most seconds first.
    """
    cases = [
        {"folder": "/".join(words[1:-1]) or ".", "file": "/".join(words) + ".py", "seconds": float(case.get("time", 0))}
        for case in ET.parse(report).iter("testcase")
        if (words := [word for word in str(case.get("classname")).split(".") if not word.startswith("Test")])
    ]
    table = pd.DataFrame(cases, columns=["folder", "file", "seconds"])
    found = table.groupby(["folder", "file"])["seconds"].agg(tests="count", seconds="sum").reset_index()
    found["seconds"] = found["seconds"].round(1)
    return found.sort_values(["seconds", "file"], ascending=[False, True]).reset_index(drop=True)


def lines(table: pd.DataFrame) -> Iterator[str]:
    """Yield the lines of a page on such a table."""
    whole = table["seconds"].sum()
    yield f"{table['tests'].sum():,} tests take {whole:,.0f} seconds of their processes."
    yield ""
    yield "| folder, file of tests | tests | seconds | share |"
    yield "| --- | --: | --: | --: |"
    folders = table.groupby("folder")[["tests", "seconds"]].sum().sort_values("seconds", ascending=False)
    for folder, row in folders.iterrows():
        name = "tests" if folder == "." else f"tests/{folder}"
        yield f"| **{name}** | {row['tests']:,.0f} | {row['seconds']:,.0f} | {row['seconds'] / whole:.0%} |"
    for row in table.head(MOST_FILES).itertuples():
        yield f"| {row.file} | {row.tests:,} | {row.seconds:,.0f} | {row.seconds / whole:.0%} |"
