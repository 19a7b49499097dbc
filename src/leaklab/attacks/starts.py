"""How every start of an attack ended: what all searches record, keep and report."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, dataclass, fields, replace
from typing import TYPE_CHECKING, get_args

import torch
from torch import Tensor

from leaklab.observations.threat_models import Silence

if TYPE_CHECKING:
    import pandas as pd

STOPPED = ("diverged", "matched", "stagnated", "budget", "read", *get_args(Silence))
"""How a start ends: ``read`` without a search and without a loss, the last ones without a start. What is kept counts on
the order."""


@dataclass(frozen=True)
class StartRecord:
    """How one start of one trial ended; one row of ``trials.csv``."""

    trial: int
    start: int
    matching_loss: float
    iterations: int
    evaluations: int
    diverged: bool
    stopped: str


def numbered(records: Iterable[StartRecord], trials: Sequence[int]) -> tuple[StartRecord, ...]:
    """Return the records of a search, which knows rows only, with the numbers of the trials within the capture."""
    return tuple(replace(record, trial=trials[record.trial]) for record in records)


def starts_table(records: Sequence[StartRecord]) -> "pd.DataFrame":
    """Return one row per start that was run, with ``chosen`` for the first one of the smallest loss of its trial."""
    import pandas as pd

    best: dict[int, StartRecord] = {}
    for record in records:
        if record.trial not in best or record.matching_loss < best[record.trial].matching_loss:
            best[record.trial] = record
    return pd.DataFrame([asdict(record) | {"chosen": record is best[record.trial]} for record in records])


def as_tensor(records: Iterable[StartRecord]) -> Tensor:
    """Return the records as numbers [N, 7] float64, for a file of tensors."""
    rows = [[*astuple(record)[:-1], STOPPED.index(record.stopped)] for record in records]
    return torch.tensor(rows, dtype=torch.float64).reshape(-1, len(fields(StartRecord)))


def from_tensor(numbers: Tensor) -> tuple[StartRecord, ...]:
    """Return the records of ``as_tensor``."""
    return tuple(
        StartRecord(int(trial), int(start), loss, int(iterations), int(evaluations), bool(diverged), STOPPED[int(code)])
        for trial, start, loss, iterations, evaluations, diverged, code in numbers.tolist()
    )
