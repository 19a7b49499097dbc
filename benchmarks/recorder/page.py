"""The page of the recorder's costs, computed from the table."""

import pandas as pd
from speed.page import markdown

GOAL = 0.05
"""Largest part of a plain round that recording may take."""
INTRO = """# What recording costs

`PYTHONPATH=benchmarks .venv/bin/python -m recorder` made this page, on one thread, beside whatever else the machine
did; `--flower .venv/flower/bin/python` names a Python that has Flower (`make test-flower` makes it). How to record:
[docs/record.md](../docs/record.md).

## An exchange, beside the disk

What a client was given and what it sent, float32, by `record_update`: written aside, hashed, renamed. The disk's own
speed is that of a plain write of the same bytes into one file of the same file system. Medians of seven, in turns.
"""
ROUNDS = """## A round of Flower

FedAvg in Flower's simulation, two clients in one worker, three rounds, a step on 32 samples each: as little work as a
client can have. A clock outside of the recorder and one inside of it tell its own seconds, of both clients; the rest of
the round is the plain round. Medians of the three rounds.
"""


def page(table: pd.DataFrame) -> str:
    """Return the page in Markdown.

    Args:
        table: one line for each size; without Flower the columns of its rounds are missing or empty.
    """
    lines = [
        [f"{row.parameters:,}", f"{row.megabytes:.1f}", *(f"{1e3 * value:.1f}" for value in
         (row.exchange_s, row.write_s, row.hash_s)), f"{row.exchange_s / (row.write_s + row.hash_s):.2f}"]
        for row in table.itertuples()
    ]  # fmt: skip
    header = ["parameters", "MB", "exchange, ms", "only written, ms", "only hashed, ms", "exchange / both"]
    parts = [INTRO.strip(), markdown(header, lines), ROUNDS.strip()]
    done = table[table["recorder_s"].notna()] if "recorder_s" in table else table[:0]
    shares = [row.recorder_s / row.plain_round_s for row in done.itertuples()]
    lines = [
        [f"{row.parameters:,}", f"{row.plain_round_s:.2f}", f"{1e3 * row.recorder_s:.0f}", f"{100 * share:.1f} %"]
        for row, share in zip(done.itertuples(), shares, strict=True)
    ]
    if not lines:
        return "\n\n".join([*parts, "Not measured: this Python has no Flower."]) + "\n"
    kept = sum(share <= GOAL for share in shares)
    verdict = f"The goal is {100 * GOAL:.0f} % of a plain round: kept at {kept} of {len(shares)} sizes."
    return (
        "\n\n".join([*parts, markdown(["parameters", "plain round, s", "recorder, ms", "of it"], lines), verdict])
        + "\n"
    )
