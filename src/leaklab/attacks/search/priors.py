"""What an attacker believes of images before it sees a gradient: neighbours are alike, and pixels have a range.

Source: "Inverting Gradients - How easy is it to break privacy in federated learning?", eq. (4) (total variation) and
section 5 (the range of the pixels as a constraint).
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

import torch
from torch import Tensor

from leaklab.attacks.search.restarts import Objective
from leaklab.records.errors import UserError

Prior = Callable[[Tensor], Tensor]
"""Images [S, B, C, H, W] -> how unlikely those of each trial are, [S]; differentiable."""


def total_variation(images: Tensor) -> Tensor:
    """Return mean |horizontal difference| + mean |vertical difference| of each trial: [S].

    The means run over all samples, channels and neighbouring pixels of a trial, so that the value does not grow with
    the size of the images; on images in [0, 1] it lies in [0, 2].

    Args:
        images: [S, B, C, H, W].

    Raises:
        UserError: the images are a single row or column of pixels.
    """
    height, width = images.shape[-2:]
    if min(height, width) < 2:
        raise UserError(f"images of {height}x{width} have no neighbours on one axis: set the prior's weight to 0")
    across, down = images.diff(dim=-1), images.diff(dim=-2)
    return across.abs().flatten(1).mean(1) + down.abs().flatten(1).mean(1)


@dataclass(frozen=True)
class WithPrior:
    """An objective plus a prior of the images; itself an ``Objective``.

    The unit of every prior's weight in this room is the matching loss of a zero gradient: that is 1 for a cosine, and
    for other distances it grows with the update, so that a weight means the same whatever is matched.

    Attributes:
        objective: what the prior is added to.
        prior: see ``Prior``.
        weight: not negative, in units of ``unit``.
        shape: (B, C, H, W) of one trial's images, which come first among its unknowns.
        unit: [T] the objective's loss for a zero gradient (its ``loss_of_nothing``).
    """

    objective: Objective
    prior: Prior
    weight: float
    shape: tuple[int, ...]
    unit: Tensor

    def __post_init__(self) -> None:
        if not (isfinite(self.weight) and self.weight >= 0):
            raise UserError(f"a prior's weight is a number of at least 0, not {self.weight}")

    def __call__(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sum [S] at ``points`` [S, n] and its derivative [S, n]."""
        loss, derivative = self.objective(points, rows)
        pixels = torch.Size(self.shape).numel()
        with torch.enable_grad():
            images = points[:, :pixels].detach().requires_grad_()
            values = self.weight * self.unit[rows] * self.prior(images.view(-1, *self.shape))
            (slope,) = torch.autograd.grad(values.sum(), images)
        total = derivative.clone()
        total[:, :pixels] += slope
        return loss + values.detach(), total


@dataclass(frozen=True)
class Box:
    """The range of a pixel, [lower, upper]; the images that attacks see are on the [0, 1] scale."""

    lower: float = 0.0
    upper: float = 1.0

    def __post_init__(self) -> None:
        if not self.lower < self.upper:
            raise UserError(f"the box [{self.lower}, {self.upper}] is empty: set lower below upper")

    def project(self, points: Tensor) -> Tensor:
        """Return the nearest points within the box, same shape."""
        return points.clamp(self.lower, self.upper)
