"""The page of the goals."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from types import MappingProxyType

from goals.rows import Row, missed, shown

OPENING = """
`make bench` ends with this page: each goal of speed beside what the benchmarks measured. *x* is processor time as a
multiple of ours beside a peer in the same run, or the seconds of the best peer over the best of ours; above 1 ours is
ahead, and ∞ is where no peer came so far in half of the updates. Where nothing stands, nothing was measured yet.
The pages: [time to a picture](time_to_picture.md), [training](training.md), [roofline](roofline.md),
[attacks](attacks.md), [operations](operations.md), [hours of small](small_hours.md), [growth](growth.md),
[scale paper on a GPU](paper_hours.md).
"""
WORDS = {True: "reached", False: "**missed**", None: "-"}


def page(rows: Sequence[Row], why: Mapping[str, str], parts: Mapping[str, Sequence[str]] = MappingProxyType({})) -> str:
    """Return the page: a table, then what stands between a goal that was missed and its number.

    Args:
        rows: of all goals.
        why: words on what was tried and what bounds it, by ``Row.missed``.
        parts: lines on where the time goes, by what a stranger waits for.
    """
    text = ["# Goals of speed", OPENING.strip(), table(rows)]
    found = missed(rows)
    text.append("## What stands between")
    if not found:
        text.append("No goal that was measured is missed.")
    for key, own in groupby(found, key=lambda row: row.missed):
        names = "; ".join(row.what for row in own)
        text.append(f"**{names}.** {why.get(key, 'Nothing is known yet of what stands between.')}")
    for what, lines in parts.items():
        text += [f"## Where the time of `{what}` goes", "\n".join(lines)]
    return "\n\n".join(text) + "\n"


def table(rows: Sequence[Row]) -> str:
    """Return the table of the rows."""
    lines = ["| | goal | measured | beside | of the peak | |", "| --- | --: | --: | --- | --: | --- |"]
    for part, own in groupby(rows, key=lambda row: row.part):
        lines.append(f"| **{part}** | | | | | |")
        for row in own:
            goal = f"{'≤' if row.at_most else '≥'} {shown(row.goal)} {row.unit}"
            share = f"{row.share:.0f} %" if row.share == row.share else ""
            measured = shown(row.value) if row.value != row.value else f"{shown(row.value)} {row.unit}"
            lines.append(f"| {row.what} | {goal} | {measured} | {row.peer} | {share} | {WORDS[row.met]} |")
    return "\n".join(lines)
