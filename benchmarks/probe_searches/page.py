"""The page of the searches, in numbers that are computed from the table."""

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


def page(table: pd.DataFrame) -> str:
    """Return the page in Markdown; one line of the table for each model and search."""
    found = table[table["db"].notna()] if "db" in table else table[:0]
    header = ["model", "search", "read", "dB", "guess", "gain", "labels", "left", "evaluations", "s"]
    lines = [_line(row) for row in found.to_dict("records")]
    refused = table[table["refused"].notna()] if "refused" in table else table[:0]
    parts = [INTRO, markdown(header, lines)]
    if len(refused):
        parts += ["## Refused in one line", "\n".join(f"* {row.model}: {row.refused}." for row in refused.itertuples())]
    controls = found[found["model"].str.startswith("control")]
    if len(controls):
        parts.append(
            f"Controls: {int(controls['read'].sum())} of {int(controls['samples'].sum())} readings of updates that "
            f"hold nothing of the sample count as read; the largest gain is {controls['gain'].max():.1f} dB."
        )
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _line(row: dict[Any, Any]) -> list[Any]:
    labels = row["labels"] if isinstance(row["labels"], str) else ""
    cut = "" if row["complete"] else ", cut"
    return [
        row["model"], row["attacker"], f"{int(row['read'])} of {int(row['samples'])}", f"{row['db']:.1f}",
        f"{row['guess']:.1f}", f"{row['gain']:.1f}", labels, f"{row['unexplained']:.0e}",
        f"{int(row['evaluations'])}{cut}", f"{row['seconds']:.1f}",
    ]  # fmt: skip
