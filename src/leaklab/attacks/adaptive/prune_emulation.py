"""Prune emulation: the dummy gradient is compressed as the client's was, before they are compared.

Source: the transform for gradient compression in "Auditing Privacy Defenses in Federated Learning via Generative
Gradient Leakage" (GGL).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from leaklab.attacks.adaptive.base import Transform
from leaklab.attacks.adaptive.inferred_gradient import InferredGradient
from leaklab.attacks.matching import Distance, squared_norm
from leaklab.observations.declared import PRESCRIBED_STEPS, Requirements


@dataclass(frozen=True)
class PruneEmulation(InferredGradient):
    """Prune each tensor of the dummy gradient to the share of zeros that was observed, then match by squared L2.

    Unlike ``support-only`` it also uses that the dropped entries were small. The price is a loss that jumps where an
    entry passes the threshold: fit for searches without derivatives; for L-BFGS ``support-only`` is the safer choice.
    """

    name: ClassVar[str] = "prune-emulation"
    requirements: ClassVar[Requirements] = Requirements(
        facts_for_delta=PRESCRIBED_STEPS, fits=("none", "gradient-compression")
    )

    @property
    def distance(self) -> Distance:
        """Squared L2 after pruning."""
        return after_pruning


def after_pruning(gradients: Sequence[Tensor], observed: Sequence[Tensor]) -> tuple[Tensor, list[Tensor], Tensor]:
    """Return ||P(g') - o||^2, where P drops as many entries of each tensor as are zero in o.

    The derivative takes the choice of the entries for constant, as it is almost everywhere; see ``matching.Distance``.
    """
    kept = [_largest(gradient, target) for gradient, target in zip(gradients, observed, strict=True)]
    triples = zip(gradients, observed, kept, strict=True)
    residuals = [torch.where(keep, gradient, 0.0) - target for gradient, target, keep in triples]
    value = squared_norm(residuals)
    used = [torch.where(keep, residual, 0.0) for residual, keep in zip(residuals, kept, strict=True)]
    return value, used, torch.full_like(value, 2.0)


def _largest(gradient: Tensor, observed: Tensor) -> Tensor:
    """Return where the gradient survives in each trial: as many entries as are non-zero in ``observed``, more at ties.

    The rule is the client's: what is strictly smaller than the smallest survivor is dropped.
    """
    sizes = gradient.abs().flatten(1)
    zeros = (observed == 0).flatten(1).sum(1, keepdim=True)
    last = sizes.shape[1] - 1
    threshold = sizes.sort(dim=1).values.gather(1, zeros.clamp(max=last))
    return ((sizes >= threshold) & (zeros <= last)).view_as(gradient)


PLUGIN: type[Transform] = PruneEmulation
