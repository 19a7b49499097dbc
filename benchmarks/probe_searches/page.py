"""The page of the searches, in numbers that are computed from the table."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from speed.page import markdown

from leaklab.metrics.gains import BAR

INTRO = f"""# What the searches of a probe read

`PYTHONPATH=benchmarks .venv/bin/python -m probe_searches` made this page, on one thread. Each client holds samples of
its own and sends one float32 update of a freshly initialised model; nobody reads off what could be read without a
search. Pictures are scikit-learn's handwritten digits, enlarged; 20 samples of each set are private, the others public.
The guess is the better of the mean of the public samples, the mean of the true class, and one number everywhere. A
sample counts as read {BAR:g} dB above it. "Left" is what the search itself leaves of the update unexplained, relative
to its length. One client of each kind: the table says that a search works on a kind of model, not how well on average.
The searches try in the order of the table until one leaves less than 1e-4, or until the budget is over ("cut").
"""


TOLD = """## Candidates and members

Eight digits are one batch. In a line-up they stand among public ones; as many as there are samples are named, by the
weights of the best sum of the candidates' gradients. Members are told from public digits of the same class: by their
weight in the best sum of all gradients, by the cosine of theirs with what was sent, or by how much the round lowers
their loss; an AUC of 0.50 is chance, its interval stands behind it.
"""
NUMBERS = ("weight", "cosine", "loss")
LIMITS = """## What would stop a search

Annealed MAP with 25 evaluations a stage, one digit of 8x8 pixels, a sigmoid CNN with 8 filters:
"""


def page(table: pd.DataFrame, told: pd.DataFrame, limits: Sequence[str]) -> str:
    """Return the page in Markdown.

    Args:
        table: a line for each model and search.
        told: a line for each batch that is told without a picture.
        limits: what would stop a search, in sentences.
    """
    found = table[table["db"].notna()] if "db" in table else table[:0]
    header = ["model", "search", "read", "dB", "guess", "gain", "labels", "left", "evaluations", "s"]
    lines = [_line(row) for row in found.to_dict("records")]
    refused = table[table["refused"].notna()] if "refused" in table else table[:0]
    parts = [INTRO, markdown(header, lines)]
    controls = found[found["model"].str.startswith("control")]
    if len(controls):
        parts.append(
            f"Controls: {int(controls['read'].sum())} of {int(controls['samples'].sum())} readings of updates that "
            f"hold nothing of the sample count as read; the largest gain is {controls['gain'].max():.1f} dB."
        )
    if len(refused):
        parts += ["Refused in one line:", "\n".join(f"* {row.model}: {row.refused}." for row in refused.itertuples())]
    if len(told):
        head = ["batch", "true among candidates", "named right", "chance", "p", *(f"AUC, {by}" for by in NUMBERS), "s"]
        parts += [TOLD, markdown(head, [_told(row) for row in told.to_dict("records")])]
    if limits:
        parts += [LIMITS, "\n".join(f"* {one}" for one in limits)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _told(row: dict[Any, Any]) -> list[Any]:
    areas = [f"{row[f'{by}_auc']:.2f} ({row[f'{by}_low']:.2f} to {row[f'{by}_high']:.2f})" for by in NUMBERS]
    among, hits = f"{row['true']} of {row['candidates']}", str(int(row["hits"]))
    chance, seconds = f"{row['chance']:.2f}", f"{row['seconds']:.1f}"
    return [row["model"], among, hits, chance, f"{row['p']:.0e}", *areas, seconds]


def _line(row: dict[Any, Any]) -> list[Any]:
    labels = row["labels"] if isinstance(row["labels"], str) else ""
    cut = "" if row["complete"] else ", cut"
    return [
        row["model"], row["attacker"], f"{int(row['read'])} of {int(row['samples'])}", f"{row['db']:.1f}",
        f"{row['guess']:.1f}", f"{row['gain']:.1f}", labels, f"{row['unexplained']:.0e}",
        f"{int(row['evaluations'])}{cut}", f"{row['seconds']:.1f}",
    ]  # fmt: skip
