"""An attack in parts: finished chunks of trials are kept in a checkpoint, so that a killed job goes on.

A chunk's result depends on its own trials only, so a resumed job ends with the same bytes as an uninterrupted one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor

from leaklab.attacks.base import Reconstruction
from leaklab.attacks.search import STOPPED, StartRecord
from leaklab.records.kept import KeptTensors

TENSORS = ("images", "labels", "candidates", "candidate_losses", "scale")
OPTIONAL = ("latents",)
TRIALS_TOGETHER = 10
"""Trials per chunk: the speed per trial is flat from here on, and a killed job loses at most one chunk."""


def chunks(trials: int) -> list[list[int]]:
    """Return the rows of each chunk."""
    rows = list(range(trials))
    return [rows[first : first + TRIALS_TOGETHER] for first in range(0, trials, TRIALS_TOGETHER)]


def tensors_of(found: Reconstruction) -> dict[str, Tensor]:
    """Return the tensors of a reconstruction by name, those that it has."""
    return {name: value for name in (*TENSORS, *OPTIONAL) if (value := getattr(found, name)) is not None}


def joined(parts: Sequence[Reconstruction]) -> Reconstruction:
    """Return the reconstructions of all trials from those of the chunks, in order."""
    named = [tensors_of(part) for part in parts]
    tensors = {name: torch.cat([part[name] for part in named]) for name in named[0]}
    return Reconstruction(**tensors, starts=tuple(start for part in parts for start in part.starts))


def starts_table(found: Reconstruction) -> pd.DataFrame:
    """Return one row per start that was run, with ``chosen`` for the one of the smallest loss."""
    best = found.candidate_losses.argmin(1).tolist()
    rows = {trial: row for row, trial in enumerate(sorted({start.trial for start in found.starts}))}
    return pd.DataFrame([asdict(s) | {"chosen": s.start == best[rows[s.trial]]} for s in found.starts])


class Checkpoint:
    """The finished chunks of one job, in one file; ``identity`` is what the job was asked to do."""

    def __init__(self, path: Path, identity: str) -> None:
        self._file = KeptTensors(path, identity)
        self._tensors = self._file.found()

    def part(self, number: int) -> Reconstruction | None:
        """Return a finished chunk, None where it is still to be done."""
        prefix = f"{number}/"
        found = {name.removeprefix(prefix): t for name, t in self._tensors.items() if name.startswith(prefix)}
        return _unpacked(found) if found else None

    def keep(self, number: int, part: Reconstruction) -> None:
        """Add a finished chunk to the file."""
        self._tensors |= {f"{number}/{name}": value for name, value in _packed(part).items()}
        self._file.keep(self._tensors)

    def remove(self) -> None:
        """Delete the file: the job is done."""
        self._file.remove()


def _packed(part: Reconstruction) -> dict[str, Tensor]:
    rows = [
        [s.trial, s.start, s.matching_loss, s.iterations, s.evaluations, s.diverged, STOPPED.index(s.stopped)]
        for s in part.starts
    ]
    return tensors_of(part) | {"starts": torch.tensor(rows, dtype=torch.float64)}


def _unpacked(tensors: Mapping[str, Tensor]) -> Reconstruction:
    starts = tuple(
        StartRecord(int(trial), int(start), loss, int(iterations), int(evaluations), bool(diverged), STOPPED[int(code)])
        for trial, start, loss, iterations, evaluations, diverged, code in tensors["starts"].tolist()
    )
    return Reconstruction(**{name: value for name, value in tensors.items() if name != "starts"}, starts=starts)
