"""Clip emulation: the dummy gradient is clipped as the client's was, before they are compared.

Source: the transform for gradient clipping in "Auditing Privacy Defenses in Federated Learning via Generative
Gradient Leakage" (GGL), which estimates the bound by the norm of the observed gradient.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from leaklab.attacks.adaptive.base import Transform
from leaklab.attacks.adaptive.inferred_gradient import InferredGradient
from leaklab.attacks.matching import Distance, ScaleFree, clipped, squared_norm
from leaklab.observations.declared import PRESCRIBED_STEPS, Requirements


@dataclass(frozen=True)
class ClipEmulation(InferredGradient):
    """Clip the dummy gradient to the norm of the observed one, then match by squared L2.

    Exact against clipping: a longer dummy gradient is compared by its direction, 2 S^2 (1 - cos), a shorter one in
    full. Against clipping with noise the estimated bound is too large, about sqrt(S^2 + n sigma^2) for n entries, which
    is mostly noise on large networks; ``matched-noise`` with its known bound is the stronger attacker there.
    """

    name: ClassVar[str] = "clip-emulation"
    requirements: ClassVar[Requirements] = Requirements(
        facts_for_delta=PRESCRIBED_STEPS, fits=("none", "gradient-clipping", "clipping-noise")
    )

    @property
    def distance(self) -> Distance:
        """Squared L2 after clipping."""
        return after_clipping


@ScaleFree
def after_clipping(gradients: Sequence[Tensor], observed: Sequence[Tensor]) -> tuple[Tensor, list[Tensor], Tensor]:
    """Return ||g' min(1, S / ||g'||) - o||^2 with S = ||o|| of each trial; see ``matching.Distance``."""
    shortened, pull_back = clipped(gradients, squared_norm(observed).sqrt())
    residuals = [gradient - target for gradient, target in zip(shortened, observed, strict=True)]
    value = squared_norm(residuals)
    return value, pull_back(residuals), torch.full_like(value, 2.0)


PLUGIN: type[Transform] = ClipEmulation
