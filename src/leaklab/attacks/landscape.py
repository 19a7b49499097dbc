"""Landscapes of the matching loss: along the line through two latents, and on a plane that contains it.

Source: LRP paper, figures 4, 11 and 12; the ranges, which the paper leaves open, are this project's.
"""

import torch
from torch import Tensor

from leaklab.attacks.latent_matching import LatentMatching
from leaklab.records.errors import UserError
from leaklab.records.streams import Stream

LINE = (-0.25, 1.25, 61)
"""Smallest and largest alpha of a line, and the number of its points."""

PLANE = (-0.5, 1.5, 31), (-1.0, 1.0, 31)
"""The same for alpha and beta of a plane."""


def steps(low: float, high: float, count: int) -> Tensor:
    """Return ``count`` equidistant numbers from ``low`` to ``high``, both included: [count] float64."""
    return torch.linspace(low, high, count, dtype=torch.float64)


def line(first: Tensor, second: Tensor, alphas: Tensor) -> Tensor:
    """Return the latents (1 - alpha) z1 + alpha z2: [A, d].

    Args:
        first: z1 [d], at alpha 0.
        second: z2 [d], at alpha 1.
        alphas: [A].

    Raises:
        UserError: the latents do not span a line.
    """
    _check_plane(first, second)
    weights = alphas.to(first)[:, None]
    return (1 - weights) * first + weights * second


def across(first: Tensor, second: Tensor, stream: Stream) -> Tensor:
    """Return z3 [d]: a random direction, as long as z2 - z1.

    Raises:
        UserError: as ``line``.
    """
    _check_plane(first, second)
    drawn = stream.normal(len(first)).to(first)
    factor: Tensor = torch.linalg.vector_norm(second - first) / torch.linalg.vector_norm(drawn)
    return drawn * factor


def plane(first: Tensor, second: Tensor, third: Tensor, alphas: Tensor, betas: Tensor) -> Tensor:
    """Return the latents z1 + alpha (z2 - z1) + beta z3: [A, B, d].

    Args:
        first: z1 [d].
        second: z2 [d].
        third: z3 [d], see ``across``.
        alphas: [A].
        betas: [B].

    Raises:
        UserError: as ``line``.
    """
    return line(first, second, alphas)[:, None] + betas.to(first)[None, :, None] * third


def losses_on(matching: LatentMatching, row: int, latents: Tensor) -> Tensor:
    """Return the matching loss of trial ``row`` at latents [..., d]: [...].

    With a profiled distance the curve does not depend on a factor on the observation: a perturbed learning rate (one
    local step) leaves it as it is without defense.
    """
    points = latents.flatten(0, -2)
    rows = torch.full((len(points),), row, device=points.device)
    return matching.evaluate(points, rows)[0].view(latents.shape[:-1])


def _check_plane(first: Tensor, second: Tensor) -> None:
    if first.dim() != 1 or first.shape != second.shape:
        raise UserError(f"a line joins two latents [d] of one size, not {list(first.shape)} and {list(second.shape)}")
    if not bool((first - second).isfinite().all()) or torch.equal(first, second):
        raise UserError("a line joins two finite latents that differ: choose other ends")
