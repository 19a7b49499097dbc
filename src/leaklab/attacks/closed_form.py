"""What is returned without a search: of images that are read off the update, and of an update that says nothing."""

import torch
from torch import Tensor

from leaklab.attacks.base import Reconstruction
from leaklab.attacks.starts import StartRecord
from leaklab.observations.base import Observation

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
