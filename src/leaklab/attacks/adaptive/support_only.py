"""Support only: compression says which entries it dropped, so nothing is asked of them.

An observed zero of a compressed gradient is not a value: plain matching would pull the dummy gradient towards zero
there. The entries that are left are exact, and they are far more numbers than an image has pixels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from leaklab.attacks.adaptive.base import Transform
from leaklab.attacks.adaptive.inferred_gradient import InferredGradient
from leaklab.attacks.matching import Distance, squared_l2
from leaklab.observations.declared import PRESCRIBED_STEPS, Requirements


@dataclass(frozen=True)
class SupportOnly(InferredGradient):
    """Match only the entries that were observed non-zero, by squared L2.

    Exact for one local step. Over several, an entry that was dropped in some of them is matched as if in none.

    The cosine on the same entries would match as well, but it gives away the length of the gradient, which
    compression does not hide: with soft labels (DLG) it then fails on starts where L2 succeeds.
    """

    name: ClassVar[str] = "support-only"
    requirements: ClassVar[Requirements] = Requirements(
        facts_for_delta=PRESCRIBED_STEPS, fits=("none", "gradient-compression")
    )

    @property
    def distance(self) -> Distance:
        """Squared L2 on the observed entries."""
        return on_support


def on_support(gradients: Sequence[Tensor], observed: Sequence[Tensor]) -> tuple[Tensor, list[Tensor], Tensor]:
    """Return the sum of (g' - o)^2 over the entries with o != 0; see ``matching.Distance``."""
    pairs = zip(gradients, observed, strict=True)
    return squared_l2([torch.where(target != 0, gradient, 0.0) for gradient, target in pairs], observed)


PLUGIN: type[Transform] = SupportOnly
