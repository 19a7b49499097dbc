"""The page of pool-peel: what came out, in numbers that are computed from the table, and what was tried besides."""

from typing import Any

import pandas as pd
from speed.page import markdown

from leaklab.metrics.pixel import EXACT_DB

GOOD = 30.0
"""Decibels from which a picture counts as read."""
INTRO = """# Pool peel

`PYTHONPATH=benchmarks .venv/bin/python -m pool_peel` made this page, on one thread. Each client holds one image of a
test part and sends one float32 gradient of a network of its own, as initialised; the prior is that of the class's
training images. Settings were chosen on images 20 to 31 of Fashion-MNIST ("chosen on"). Two earlier versions were
seen on images 32 to 79: with three starts, none of which went on from another, 16 of 32 to 55 were read; with eight
that do, 17 of 56 to 79, at a rate of 0.01, which rounds. The flips of single winners at the end of closing came then,
tried on four of 32 to 55 that had not closed. All other lines are of images 80 and up, looked at once, at the end. An
image counts as read from 30 dB; a certificate would be false at 60 dB or less. "Closed" is how often the second
stage's input was read with a proof. The class mean is what reads nothing but the label.
"""


def page(table: pd.DataFrame, attempts: str) -> str:
    """Return the page in Markdown.

    Args:
        table: one line for each client and attacker.
        attempts: what was tried besides, in words.
    """
    read = table[table["psnr"].notna()] if "psnr" in table else table[:0]
    refused = table[table["refused"].notna()] if "refused" in table else table[:0]
    groups = read.groupby(["workload", "attacker"], sort=False)
    lines = [[title, attacker, *_figures(own)] for (title, attacker), own in groups]
    header = [
        "clients", "attacker", "n", "read", "median dB", "lowest", "highest", "class mean", "closed", "certified",
        "false", "median s", "most s",
    ]  # fmt: skip
    parts = [INTRO, markdown(header, lines)]
    if len(refused):
        reasons = refused.drop_duplicates(["workload", "attacker"])
        parts += [
            "## Refused in one line",
            "\n".join(f"* **{row.workload}**: {row.refused}." for row in reasons.itertuples()),
        ]
    return "\n\n".join(part.strip() for part in [*parts, attempts]) + "\n"


def _figures(own: pd.DataFrame) -> list[Any]:
    """Return the cells of one workload and attacker."""
    decibels, seconds = own["psnr"], own["seconds"]
    proofs = own["certified"].notna().any()
    certified = own["certified"].eq(True)
    return [
        str(len(own)),
        f"{int((decibels >= GOOD).sum())}",
        f"{decibels.median():.1f}",
        f"{decibels.min():.1f}",
        f"{decibels.max():.1f}",
        f"{own['mean_psnr'].median():.1f}",
        f"{int(own['closed'].eq(True).sum())}" if proofs else "-",
        f"{int(certified.sum())}" if proofs else "-",
        f"{int((certified & (decibels <= EXACT_DB)).sum())}" if proofs else "-",
        f"{seconds.median():.1f}",
        f"{seconds.max():.1f}",
    ]
