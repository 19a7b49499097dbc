"""Which reconstructed image belongs to which private one: a batch comes back in any order."""

import torch
from torch import Tensor


def match(reconstruction: Tensor, truth: Tensor) -> Tensor:
    """Return the bijection with the smallest sum of clamped MSEs (Hungarian method), trial by trial.

    Args:
        reconstruction: [T, B, C, H, W] on the [0, 1] scale, finite.
        truth: the same shape, in [0, 1].

    Returns:
        int64, [T, B]: entry [t, b] is the reconstruction that belongs to private image b of trial t.
    """
    trials, batch = truth.shape[:2]
    if batch == 1:
        return torch.zeros(trials, 1, dtype=torch.int64)
    from scipy.optimize import linear_sum_assignment  # slow to import, and single images need none of it

    guesses, originals = reconstruction.double().clamp(0, 1).flatten(2), truth.double().flatten(2)
    # no matrix-product shortcut: its cancellation would blur the cost of nearly perfect reconstructions
    distance = torch.cdist(originals, guesses, compute_mode="donot_use_mm_for_euclid_dist")
    costs = distance.square().cpu().numpy()
    return torch.stack([torch.as_tensor(linear_sum_assignment(cost)[1], dtype=torch.int64) for cost in costs])


def reorder(batch: Tensor, order: Tensor) -> Tensor:
    """Return ``batch`` [T, B, ...] with entry [t, b] taken from [t, order[t, b]]."""
    trial = torch.arange(len(batch)).unsqueeze(1)
    return batch[trial, order]
