"""An attack in parts: finished chunks of trials are kept, so that a killed job goes on (``steps/kept_attack.py``).

A chunk's result depends on its own trials only, so a resumed job ends with the same bytes as an uninterrupted one.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from leaklab.attacks.base import Reconstruction
from leaklab.attacks.starts import StartRecord, as_tensor, from_tensor
from leaklab.observations.base import Observation
from leaklab.specs.attack import TRIALS_TOGETHER

TENSORS = ("images", "labels", "candidates", "candidate_losses", "scale")
OPTIONAL = ("latents", "certified")


def chunks(trials: int) -> list[list[int]]:
    """Return the rows of each chunk."""
    rows = list(range(trials))
    return [rows[first : first + TRIALS_TOGETHER] for first in range(0, trials, TRIALS_TOGETHER)]


def tensors_of(found: Reconstruction) -> dict[str, Tensor]:
    """Return the tensors of a reconstruction by name, those that it has."""
    return {name: value for name in (*TENSORS, *OPTIONAL) if (value := getattr(found, name)) is not None}


def joined(parts: Sequence[Reconstruction]) -> Reconstruction:
    """Return the reconstructions of all trials from those of the chunks, in order.

    Where nothing was searched there is one start, and none of the optional tensors: NaN takes the places.
    """
    named = [tensors_of(part) for part in parts]
    names = [name for name in (*TENSORS, *OPTIONAL) if any(name in part for part in named)]
    tensors = {name: torch.cat(_alike([part.get(name) for part in named], parts)) for name in names}
    return Reconstruction(**tensors, starts=tuple(start for part in parts for start in part.starts))


def _alike(values: Sequence[Tensor | None], parts: Sequence[Reconstruction]) -> list[Tensor]:
    """Return what parts have under one name in one shape but for the trials; ``False`` fills up what is true or not."""
    like = max((value for value in values if value is not None), key=lambda value: value.shape[1:])
    found = []
    for value, part in zip(values, parts, strict=True):
        trials = len(part.labels)
        whole = like.new_full((trials, *like.shape[1:]), torch.nan if like.is_floating_point() else 0)
        if value is not None and value.shape[1:] != like.shape[1:]:
            whole[:, : value.shape[1]] = value
        found.append(value if value is not None and value.shape[1:] == like.shape[1:] else whole)
    return found


def in_order(found: Reconstruction, rows: Sequence[int]) -> Reconstruction:
    """Return trials that are those of ``rows`` in the order of the rows; starts go by the numbers of their trials."""
    places = sorted(range(len(rows)), key=lambda place: rows[place])
    tensors = {name: value[places] for name, value in tensors_of(found).items()}
    return Reconstruction(**tensors, starts=tuple(sorted(found.starts, key=lambda start: start.trial)))


def alone(found: Reconstruction, place: int) -> Reconstruction:
    """Return one trial, without its starts."""
    return Reconstruction(**{name: value[[place]] for name, value in tensors_of(found).items()}, starts=())


def packed(part: Reconstruction) -> dict[str, Tensor]:
    """Return a chunk as tensors, its starts included."""
    return tensors_of(part) | {"starts": as_tensor(part.starts)}


def unpacked(tensors: Mapping[str, Tensor]) -> Reconstruction:
    """Return the chunk of ``packed``."""
    rest = {name: value for name, value in tensors.items() if name != "starts"}
    return Reconstruction(**rest, starts=from_tensor(tensors["starts"]))


# What is returned without a search: of images that are read off the update, and of an update that says nothing.

NO_LABEL = -1
"""Stands where no label was guessed."""


def read_off(observation: Observation, images: Tensor, labels: Tensor) -> Reconstruction:
    """Return the reconstruction: one start per trial, without a loss, as none is evaluated, and a factor of 1.

    Args:
        observation: of T trials.
        images: [T, B, C, H, W]; a trial that could not be read has no finite number and is recorded as diverged.
        labels: [T, B].
    """
    seen = images.flatten(1).isfinite().any(1)
    losses = torch.full((len(images),), torch.nan).masked_fill(~seen.cpu(), torch.inf).to(images)
    starts = tuple(
        StartRecord(trial, 0, loss, 0, 0, not read, "read" if read else "diverged")
        for trial, loss, read in zip(observation.trials, losses.tolist(), seen.tolist(), strict=True)
    )
    return Reconstruction.of_starts(images[:, None], losses[:, None], labels, starts)


def unread(observation: Observation, samples: tuple[int, ...]) -> Reconstruction:
    """Return the answer to updates that say nothing: neither an image nor a label, and no start.

    Args:
        observation: of T trials, all ``silent``.
        samples: (B, C, H, W) of one update.
    """
    like, trials = observation.like, observation.trials
    images = like.new_full((len(trials), *samples), torch.nan)
    labels = torch.full((len(trials), samples[0]), NO_LABEL, device=like.device)
    starts = tuple(StartRecord(trial, 0, torch.nan, 0, 0, False, observation.silent[trial]) for trial in trials)
    return Reconstruction.of_starts(images[:, None], like.new_full((len(trials), 1), torch.nan), labels, starts)
