"""The page of the recorder's costs, computed from the table."""

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

FedAvg in Flower's simulation, two clients in one worker, a step on 32 samples each: as little work as a client can
have. Every second round is recorded, so that what else the machine does falls on both kinds alike. A reply waits until
the recorder knows what to write; it is written while the reply is on its way. A clock outside of the recorder and one
inside of it tell the waiting, of both clients.
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
    done = table[table["recorded_round_s"].notna()] if "recorded_round_s" in table else table[:0]
    if done.empty:
        return "\n\n".join([*parts, "Not measured: this Python has no Flower."]) + "\n"
    header = ["parameters", "rounds of each", "plain round, s", "recorded round, s", "more, %", "replies wait, ms"]
    lines = [
        [
            f"{row['parameters']:,.0f}",
            f"{row['rounds']:.0f}",
            _both(row["plain_round_s"], row["least_plain_round_s"], 2),
            _both(row["recorded_round_s"], row["least_recorded_round_s"], 2),
            _both(100 * more(row), 100 * more(row, "least_"), 1),
            _both(1e3 * row["waiting_s"], 1e3 * row["least_waiting_s"], 1),
        ]
        for _, row in done.iterrows()
    ]
    kept, least = (sum(more(row, kind) <= GOAL for _, row in done.iterrows()) for kind in ("", "least_"))
    verdict = (
        f"The goal is {100 * GOAL:.0f} % of a plain round: kept at {kept} of {len(done)} sizes by medians, and at "
        f"{least} by the least; local training of more than one step makes the part smaller."
    )
    return "\n\n".join([*parts, markdown(header, lines), verdict]) + "\n"


def more(row: pd.Series, kind: str = "") -> float:
    """Return by which part of itself recording makes a round longer, of medians or of the least."""
    return float(row[f"{kind}recorded_round_s"] / row[f"{kind}plain_round_s"] - 1)


def _both(median: float, least: float, digits: int) -> str:
    return f"{median:.{digits}f} / {least:.{digits}f}"
