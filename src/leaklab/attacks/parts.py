"""An attack in parts: finished chunks of trials are kept, so that a killed job goes on (``steps/kept_attack.py``).

A chunk's result depends on its own trials only, so a resumed job ends with the same bytes as an uninterrupted one.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from leaklab.attacks.base import Reconstruction
from leaklab.attacks.starts import as_tensor, from_tensor

TENSORS = ("images", "labels", "candidates", "candidate_losses", "scale")
OPTIONAL = ("latents", "certified")
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


def packed(part: Reconstruction) -> dict[str, Tensor]:
    """Return a chunk as tensors, its starts included."""
    return tensors_of(part) | {"starts": as_tensor(part.starts)}


def unpacked(tensors: Mapping[str, Tensor]) -> Reconstruction:
    """Return the chunk of ``packed``."""
    rest = {name: value for name, value in tensors.items() if name != "starts"}
    return Reconstruction(**rest, starts=from_tensor(tensors["starts"]))
