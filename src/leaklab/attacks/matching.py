"""Matching: how far the gradients of the dummy data are from the observed ones, and the derivative of that.

A distance returns its derivative by hand: with the residual at hand it is the residual times a number, so the search
needs one backward pass through the network only and no graph over the weights.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Distance = Callable[[Sequence[Tensor], Sequence[Tensor]], tuple[Tensor, list[Tensor], Tensor]]
"""Maps gradients and observed gradients ([T, ...] per parameter) to the value [T], residuals, and a factor [T];
the derivative of the value for a gradient tensor is factor * residual."""


PROFILED_SIZE = 1e3
"""c of ``profiled_scale``. The tolerances of L-BFGS are absolute: a loss of size 1 stalls far from the solution, long
before one of the size of ||g||^2 (1e2 to 1e3 on the networks that these attacks are shown on)."""


def squared_l2(gradients: Sequence[Tensor], observed: Sequence[Tensor]) -> tuple[Tensor, list[Tensor], Tensor]:
    """Return ||g' - o||^2, summed over all tensors without weights (DLG, eq. 3; no normalisation)."""
    residuals = [gradient - target for gradient, target in zip(gradients, observed, strict=True)]
    value = squared_norm(residuals)
    return value, residuals, torch.full_like(value, 2.0)


def profiled_scale(gradients: Sequence[Tensor], observed: Sequence[Tensor]) -> tuple[Tensor, list[Tensor], Tensor]:
    """Return c min over s of ||o - s g'||^2 / ||o||^2 = c (1 - cos^2(o, g')), which ignores any factor on o.

    It is computed from the residual at the best s, not as 1 - cos^2: near a match the latter is a difference of ones
    and stalls. At the best s the derivative with respect to s vanishes, so s counts as a constant.
    """
    scale = profiled_factor(gradients, observed)
    norm = squared_norm(observed) / PROFILED_SIZE
    residuals = [by_trial(scale, g) * g - o for g, o in zip(gradients, observed, strict=True)]
    return squared_norm(residuals) / norm, residuals, 2 * scale / norm


def profiled_factor(gradients: Sequence[Tensor], observed: Sequence[Tensor]) -> Tensor:
    """Return the s [T] that minimises ||o - s g'||^2."""
    pairs = zip(gradients, observed, strict=True)
    product = torch.stack([(g * o).flatten(1).sum(1) for g, o in pairs]).sum(0)
    norm = squared_norm(gradients)
    # no scale improves on a gradient of zero
    return product / norm.clamp(min=torch.finfo(norm.dtype).tiny)


def squared_norm(tensors: Sequence[Tensor]) -> Tensor:
    """Return the squared L2 norm over all tensors [T, ...] of each trial: [T]."""
    # a float32 sum over a tensor of ten million entries is off by 3e-5
    squares = [torch.linalg.vector_norm(value.flatten(1), dim=1, dtype=torch.float64) ** 2 for value in tensors]
    return torch.stack(squares).sum(0).to(tensors[0].dtype)


def by_trial(factor: Tensor, like: Tensor) -> Tensor:
    """Return ``factor`` [T] with as many dimensions as ``like`` [T, ...], so that their product is by trial."""
    return factor.view(-1, *[1] * (like.dim() - 1))


DISTANCES: dict[str, Distance] = {"squared-l2": squared_l2, "profiled-scale": profiled_scale}
