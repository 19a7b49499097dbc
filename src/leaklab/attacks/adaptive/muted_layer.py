"""Muted layer: Soteria changes one tensor only, so the attacker does without it.

Source: "Bayesian Framework for Gradient Leakage", which leaves the defended layer's weight
gradient out of the matching loss.
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
class MutedLayer(InferredGradient):
    """Match all gradients but the head's weight; the head's bias stays.

    Needs no knowledge of the mask. ``masked-columns`` also uses what the mask left of the head.
    """

    name: ClassVar[str] = "muted-layer"
    knows_the_head: ClassVar[bool] = True
    requirements: ClassVar[Requirements] = Requirements(facts_for_delta=PRESCRIBED_STEPS, fits=("none", "soteria"))

    @property
    def distance(self) -> Distance:
        """Squared L2 without the head's weight."""
        return without_head_weight


def without_head_weight(gradients: Sequence[Tensor], observed: Sequence[Tensor]) -> tuple[Tensor, list[Tensor], Tensor]:
    """Return ||g' - o||^2 over all tensors but the last but one; see ``matching.Distance``."""
    *front, weight, bias = gradients
    value, residuals, factor = squared_l2([*front, bias], [*observed[:-2], observed[-1]])
    return value, [*residuals[:-1], torch.zeros_like(weight), residuals[-1]], factor


PLUGIN: type[Transform] = MutedLayer
