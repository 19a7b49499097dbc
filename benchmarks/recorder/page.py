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

FedAvg in Flower's simulation, two clients in one worker. A client takes 20 steps on 32 samples each; in the last row
one, as little work as a client can have: of two busy cores, what writes and sums takes what the training wants. Blocks
of six rounds are recorded, and blocks between them are not, so that what else the machine does falls on both kinds
alike. The first round of each block is left out, as the exchange before it may still be written in it. Means; the
interval is Student's over pairs of blocks. A reply waits until the recorder knows what to write; it is written while
the reply is on its way, at the lowest priority. A clock outside of the recorder and one inside of it tell the waiting
of both clients together (median).
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
        for _, row in table.drop_duplicates("parameters").iterrows()
    ]
    parts = [INTRO.strip(), markdown(header, lines), ROUNDS.strip()]
    done = table[table["recorded_round_s"].notna()] if "recorded_round_s" in table else table[:0]
    if done.empty:
        return "\n\n".join([*parts, "Not measured: this Python has no Flower."]) + "\n"
    return "\n\n".join([*parts, _rounds(done), _verdict(done)]) + "\n"


def _rounds(done: pd.DataFrame) -> str:
    header = ["parameters", "steps", "rounds of each", "plain, s", "recorded, s", "more, %", "replies wait, ms"]
    lines = [
        [
            f"{row['parameters']:,.0f}",
            f"{row['steps']:.0f}",
            f"{row['rounds']:.0f}",
            f"{row['plain_round_s']:.3f}",
            f"{row['recorded_round_s']:.3f}",
            f"{100 * more(row):.1f} [{100 * row['least_more']:.1f}, {100 * row['most_more']:.1f}]",
            f"{1e3 * row['waiting_s']:.1f}",
        ]
        for _, row in done.iterrows()
    ]
    return markdown(header, lines)


def _verdict(done: pd.DataFrame) -> str:
    kept = sum(more(row) <= GOAL for _, row in done.iterrows())
    surely = sum(row["most_more"] <= GOAL for _, row in done.iterrows())
    return (
        f"The goal is {100 * GOAL:.0f} % of a plain round: kept in {kept} of {len(done)} rows, and in {surely} by "
        "the whole interval."
    )


def more(row: pd.Series) -> float:
    """Return by which part of itself recording makes a round longer."""
    return float(row["recorded_round_s"] / row["plain_round_s"] - 1)


def _both(median: float, least: float, digits: int) -> str:
    return f"{median:.{digits}f} / {least:.{digits}f}"
