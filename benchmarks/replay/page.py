"""The page of the replay's benchmark, in numbers that are computed from its table."""

from typing import Any

import pandas as pd
from speed.page import markdown

from replay.planted import every

INTRO = """# Replay

`PYTHONPATH=benchmarks .venv/bin/python -m replay` made this page. A client does something that its description does not
say, and the replay has to name it. *Named* is strict: the names of an explanation are those of the mistake, no more and
no less, and its number is right to 1 %; where one round cannot tell several mistakes apart, the right one is among
those that are listed as equal. *First* counts where it is the first of them. *Wrong* is any other explanation. Five
networks of some thousand weights, eight samples of 12 x 12, float32, one step on all or four on batches of four;
seconds are those of one thread. Rows that were missed at first were measured again after what they
showed was mended, so the counts are not held out.
"""
RIGHT = """## Right descriptions

Clients drawn at random: network, optimizer, rate, steps, batches, accumulation, clipping, mode, type, mixed precision,
rounding of what is sent. Every third one trains in float64 and sends the result in float32, as a machine with other
rounding would.
"""


def page(table: pd.DataFrame) -> str:
    """Return the page in Markdown.

    Args:
        table: one line for each replay.
    """
    planted = table[table["group"] != "right"]
    parts = [INTRO, _overview(planted)]
    for group, own in planted.groupby("group", sort=False):
        parts.append(f"## {str(group).capitalize()}")
        header = ["planted", "n", "named", "first", "wrong", "not explained", "median s", "most s"]
        kinds = own.groupby("planted", sort=False)
        parts.append(markdown(header, [[str(kind), *_cells(rows, str(group))] for kind, rows in kinds]))
    parts += [_missed(planted), _lacking(planted), RIGHT, _right(table[table["group"] == "right"])]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _overview(planted: pd.DataFrame) -> str:
    header = ["", "n", "named", "first", "wrong", "not explained", "median s", "most s"]
    lines = []
    for (group, steps), own in planted.groupby(["group", "steps"], sort=False):
        lines.append([f"{group}, {'one step' if int(steps) == 1 else f'{int(steps)} steps'}", *_cells(own, str(group))])
    return markdown(header, lines)


def _cells(rows: pd.DataFrame, group: str) -> list[Any]:
    """Return counts and seconds; what has no name is right where nothing was explained."""
    outcome = rows["outcome"]
    none = group == "without a name"
    return [
        str(len(rows)),
        "-" if none else str(int((outcome == "named").sum())),
        "-" if none else str(int(rows["first"].eq(True).sum())),
        str(int((outcome == "wrong").sum())),
        str(int((outcome == "not explained").sum())),
        f"{rows['seconds'].median():.1f}",
        f"{rows['seconds'].max():.1f}",
    ]


def _missed(planted: pd.DataFrame) -> str:
    lost = planted[(planted["outcome"] != "named") & ~planted["group"].eq("without a name")]
    false = planted[planted["group"].eq("without a name") & planted["outcome"].eq("wrong")]
    rows = pd.concat([lost, false])
    if not len(rows):
        return "Every planted mistake was named."
    lines = [
        f"* **{row.planted}**, {row.network}, {int(row.steps)} steps: {row.outcome}; said: {row.said}."
        for row in rows.itertuples()
    ]
    return "## Missed\n\n" + "\n".join(lines)


def _lacking(planted: pd.DataFrame) -> str:
    """Return which kinds the table lacks; the others are in it on one network or more."""
    there = {(str(row.planted), int(row.steps)) for row in planted.itertuples()}
    lacking = [
        f"{kind.title} ({steps})" for _, kind in every() for steps in kind.steps if (kind.title, steps) not in there
    ]
    return f"Not measured yet, with their steps: {', '.join(lacking)}." if lacking else ""


def _right(rows: pd.DataFrame) -> str:
    if not len(rows):
        return "Not measured."
    lines = []
    for rounding, own in rows.groupby("rounding", sort=False):
        alarms = int((own["outcome"] != "right").sum())
        cells = [str(rounding), str(len(own)), str(alarms), f"{own['error'].median():.1g}", f"{own['error'].max():.1g}"]
        lines.append([*cells, f"{own['seconds'].max():.1f}"])
    text = markdown(["rounding", "n", "false alarms", "median error", "largest", "most s"], lines)
    alarmed = rows[rows["outcome"] != "right"]
    told = [
        f"* {row.network}, {row.optimizer}, {row.steps} steps, sends {row.sends}: error {row.error:.1g}."
        for row in alarmed.itertuples()
    ]
    return text + ("\n\n" + "\n".join(told) if told else "")
