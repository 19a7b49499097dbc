"""Matching losses of the attacks on text: TAG, TAG with the scale profiled out, and the mean cosine.

Sources: J. Deng et al., "TAG: gradient attack on transformer-based language models", 2021; M. Balunovic et al., "LAMP:
extracting text from gradients with language model priors", 2022 (continuous part).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from leaklab.attacks.matching.distances import profiled_factor

NEGLIGIBLE = 1e-6
"""A tensor whose observed norm is below this part of the largest one's holds rounding errors: the bias of attention's
keys has a gradient of exactly zero, since softmax does not see a shift. It has no direction to be compared."""


class TextDistance(Protocol):
    """Maps the gradients and the observed gradients of one trial (a tensor per parameter, in order) to a scalar."""

    def __call__(self, gradients: Sequence[Tensor], observed: Sequence[Tensor]) -> Tensor:
        """Return the distance, differentiable for ``gradients``."""
        ...


@dataclass(frozen=True)
class Tag:
    """sum_d ||g'_d - o_d||_2 + a_d ||g'_d - o_d||_1; it knows the scale of the gradient and fails without it.

    Attributes:
        first_weight: a of the first tensor; it falls linearly to first_weight / D at the last of D tensors.
        squared: square the L2 norms, as some later implementations do; LRP and TAG do not say so.
    """

    first_weight: float = 0.01
    squared: bool = False

    def __call__(self, gradients: Sequence[Tensor], observed: Sequence[Tensor]) -> Tensor:
        """Return the distance; its derivative counts a residual of zero as zero."""
        residuals = [gradient - target for gradient, target in zip(gradients, observed, strict=True)]
        return self.size_of(residuals, 1.0)

    def size_of(self, residuals: Sequence[Tensor], unit: Tensor | float) -> Tensor:
        """Return the loss of residuals that are measured in ``unit``."""
        norms = torch.stack([torch.linalg.vector_norm(value) for value in residuals]) / unit
        absolute = torch.stack([value.abs().sum() for value in residuals]) / unit
        falling = torch.arange(len(residuals), 0, -1, dtype=norms.dtype, device=norms.device) / len(residuals)
        return (norms**2 if self.squared else norms).sum() + self.first_weight * (falling * absolute).sum()


@dataclass(frozen=True)
class ProfiledTag:
    """TAG for an attacker who does not know the gradient's scale: TAG(s g', o) in units of ||o||.

    s = <g', o> / ||g'||^2 minimises ||s g' - o||_2 over all tensors together, the only part with a closed form. The
    same s enters the norms by tensor and the L1 part: at the truth it is exact for all of them, and elsewhere the
    derivative counts its change. The value ignores any factor on o.

    Attributes:
        tag: the weights and the norm.
    """

    tag: Tag = Tag()

    def __call__(self, gradients: Sequence[Tensor], observed: Sequence[Tensor]) -> Tensor:
        """Return the distance."""
        scale = profiled_factor([g[None] for g in gradients], [o[None] for o in observed])[0]
        residuals = [scale * gradient - target for gradient, target in zip(gradients, observed, strict=True)]
        return self.tag.size_of(residuals, _whole_norm(observed))


@dataclass(frozen=True)
class MeanCosine:
    """1 - mean over tensors of cos(g'_d, o_d): LAMP's; it ignores any positive factor on o."""

    def __call__(self, gradients: Sequence[Tensor], observed: Sequence[Tensor]) -> Tensor:
        """Return the distance over the tensors whose observed gradient is not negligible; 1 if none is."""
        norms = torch.stack([torch.linalg.vector_norm(value) for value in observed])
        kept = (norms > NEGLIGIBLE * norms.max()).tolist()
        chosen = [pair for pair, keep in zip(zip(gradients, observed, strict=True), kept, strict=True) if keep]
        if not chosen:
            return norms.new_ones(()) + 0 * gradients[0].sum()
        cosines = [torch.cosine_similarity(g.flatten(), o.flatten(), dim=0, eps=_tiny(o)) for g, o in chosen]
        return 1 - torch.stack(cosines).mean()


def _whole_norm(observed: Sequence[Tensor]) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(value) for value in observed]))
    return norm.clamp(min=_tiny(norm))


def _tiny(like: Tensor) -> float:
    return float(torch.finfo(like.dtype).tiny)


TEXT_DISTANCES: dict[str, TextDistance] = {
    "tag": Tag(),
    "tag-squared": Tag(squared=True),
    "profiled-tag": ProfiledTag(),
    "mean-cosine": MeanCosine(),
}
