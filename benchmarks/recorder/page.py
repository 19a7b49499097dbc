"""The page of the recorder's costs, computed from the table."""

from math import ceil

import pandas as pd
from speed.page import markdown

GOAL = 0.05
"""Largest part of a plain round that recording may take."""
INTRO = """# What recording costs

`PYTHONPATH=benchmarks .venv/bin/python -m recorder` made this page, on one thread, beside whatever else the machine
did; `--flower .venv/flower/bin/python` names a Python that has Flower (`make test-flower` makes it). Medians, and after
the stroke the least, which other work on the machine disturbed least. How to record:
[docs/record.md](../docs/record.md).

## An exchange, beside the disk

What a client was given and what it sent, float32, by `record_update`: written aside, summed (CRC-32), renamed. The
disk's own speed is that of a plain write of the same bytes into a file of the same file system, which stays there as an
exchange does. Seven times, in turns.
"""
ROUNDS = """## A round of Flower

FedAvg in Flower's simulation, two clients in one worker, nine rounds, a step on 32 samples each: as little work as a
client can have. A clock outside of the recorder and one inside of it tell its own seconds, of both clients; the rest of
the round is the plain round.
"""


def page(table: pd.DataFrame) -> str:
    """Return the page in Markdown.

    Args:
        table: one line for each size; without Flower the columns of its rounds are missing or empty.
    """
    header = ["parameters", "MB", "exchange, ms", "only written, ms", "only summed, ms", "exchange / both"]
    lines = [
        [
            f"{row['parameters']:,.0f}",
            f"{row['megabytes']:.1f}",
            *(_both(1e3 * row[name], 1e3 * row[f"least_{name}"], 1) for name in ("exchange_s", "write_s", "sum_s")),
            _both(
                row["exchange_s"] / (row["write_s"] + row["sum_s"]),
                row["least_exchange_s"] / (row["least_write_s"] + row["least_sum_s"]),
                1,
            ),
        ]
        for _, row in table.iterrows()
    ]
    parts = [INTRO.strip(), markdown(header, lines), ROUNDS.strip()]
    done = table[table["recorder_s"].notna()] if "recorder_s" in table else table[:0]
    if done.empty:
        return "\n\n".join([*parts, "Not measured: this Python has no Flower."]) + "\n"
    shares, least = [], []
    lines = []
    for _, row in done.iterrows():
        shares.append(row["recorder_s"] / row["plain_round_s"])
        least.append(row["least_recorder_s"] / row["least_plain_round_s"])
        lines.append([
            f"{row['parameters']:,.0f}",
            _both(row["plain_round_s"], row["least_plain_round_s"], 2),
            _both(1e3 * row["recorder_s"], 1e3 * row["least_recorder_s"], 0),
            _both(100 * shares[-1], 100 * least[-1], 1),
        ])  # fmt: skip
    verdict = (
        f"The goal is {100 * GOAL:.0f} % of a plain round: kept at {sum(one <= GOAL for one in shares)} of "
        f"{len(shares)} sizes by medians, and at {sum(one <= GOAL for one in least)} by the least. "
        f"With `every={ceil(max(shares) / GOAL)}` the mean round keeps it at all sizes by medians; local training of "
        "more than one step makes the part smaller too."
    )
    return (
        "\n\n".join([*parts, markdown(["parameters", "plain round, s", "recorder, ms", "of it, %"], lines), verdict])
        + "\n"
    )


def _both(median: float, least: float, digits: int) -> str:
    return f"{median:.{digits}f} / {least:.{digits}f}"
