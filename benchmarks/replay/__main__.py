"""Plant mistakes in descriptions of clients, and count how often a replay names them.

PYTHONPATH=benchmarks .venv/bin/python -m replay                  all that is not in the table yet, then the page
PYTHONPATH=benchmarks .venv/bin/python -m replay --networks 2     each kind on so many of its networks
PYTHONPATH=benchmarks .venv/bin/python -m replay --only decay     kinds of which the title holds a word
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from speed.page import wrapped

from leaklab.probing.replay.replay import replay
from leaklab.probing.replay.result import Replay
from leaklab.records.files import write_text
from replay.networks import NETWORKS
from replay.page import page
from replay.planted import Planted, case_of, every
from replay.right import right_case

PAGE, TABLE = Path("benchmarks/replay.md"), Path("benchmarks/replay.csv")
KEY = ["planted", "network", "steps"]
CLOSE = 0.01
"""Relative distance up to which a number is right."""
NOISY = 0.05
"""The same of a deviation, which so few entries tell no better."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is missing, keep each row as soon as it is there, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--networks", type=int, default=len(NETWORKS))
    parser.add_argument("--right", type=int, default=200, help="right descriptions")
    parser.add_argument("--only", default="", help="a word of a kind's title")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rows = pd.read_csv(TABLE).to_dict("records") if TABLE.is_file() else []
    done = {tuple(str(row[key]) for key in KEY) for row in rows}
    for row in measured(given.networks, given.right, given.only, done):
        rows.append(row)
        sys.stderr.write(f"{ {key: row[key] for key in (*KEY, 'outcome', 'said', 'seconds')} }\n")
        write_text(TABLE, pd.DataFrame(rows).to_csv(index=False))
    write_text(PAGE, wrapped(page(pd.DataFrame(rows))))


def measured(networks: int, right: int, only: str, done: set[tuple[str, ...]]) -> Iterator[dict[str, Any]]:
    """Yield the rows that are not done, each kind on one network before any is tried on the next."""
    for number in range(0 if only else right):
        if ("right", str(number), "0") not in done:
            yield right_row(number)
    for turn in range(networks):
        for place, (group, kind) in enumerate(every()):
            fitting = [name for name in NETWORKS if kind.fits(name)]
            for number, steps in enumerate(kind.steps):
                if turn >= len(fitting) or only not in kind.title:
                    continue
                network = fitting[(place + turn + 2 * number) % len(fitting)]
                if (kind.title, network, str(steps)) not in done:
                    yield planted_row(group, kind, network, steps, seed=place)


def planted_row(group: str, kind: Planted, network: str, steps: int, seed: int) -> dict[str, Any]:
    """Return what a replay says of one planted mistake, and whether that is right."""
    case, others = case_of(kind, network, steps, seed)
    found = replay(case, others)
    rights = [place for place, one in enumerate(found.explanations) if _is_right(one.names, one.numbers, kind, steps)]
    outcome = "named" if rights else "wrong" if found.explanations else "not explained"
    if found.matches:
        outcome = "wrong"
    said = "; ".join(one.says for one in found.explanations) or ("right" if found.matches else "nothing")
    row = {"group": group, "planted": kind.title, "network": network, "steps": steps, "outcome": outcome}
    return row | {"first": rights[:1] == [0], "said": said, **_figures(found)}


def _is_right(names: Sequence[str], numbers: Sequence[float], kind: Planted, steps: int) -> bool:
    expected = kind.expected(steps)
    if set(names) != expected:
        return False
    if kind.number is None or (expected != kind.names):
        return True
    close = NOISY if "noise" in expected else CLOSE
    return any(abs(number / kind.number - 1) <= close for number in numbers)


def _figures(found: Replay) -> dict[str, Any]:
    residual = found.explanations[0].residual if found.explanations else None
    return {"error": found.error, "residual": residual, "runs": found.runs, "seconds": round(found.seconds, 2)}


def right_row(number: int) -> dict[str, Any]:
    """Return what a replay says of one right description."""
    case, drawn = right_case(number)
    found = replay(case, budget=2.0)
    outcome = "right" if found.matches and not found.explanations else "false alarm"
    said = "; ".join(one.says for one in found.explanations) or "nothing"
    keys = {"group": "right", "planted": "right", "network": str(number), "steps": 0, "outcome": outcome}
    return keys | {"said": said, **_figures(found), **{f"{key}" if key not in keys else f"{key} drawn": value
                                                       for key, value in drawn.items()}}  # fmt: skip


if __name__ == "__main__":
    main()
