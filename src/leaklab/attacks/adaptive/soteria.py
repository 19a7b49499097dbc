"""Masked columns: Soteria's mask can be read off the observation, as whole columns of zeros in the head's weight.

Source: the transform for Soteria in "Auditing Privacy Defenses in Federated Learning via Generative Gradient Leakage"
(GGL).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from leaklab.attacks.adaptive.base import InferredGradient
from leaklab.attacks.matching.distances import Distance, squared_l2
from leaklab.observations.declared import PRESCRIBED_STEPS, Requirements


@dataclass(frozen=True)
class MaskedColumns(InferredGradient):
    """Match the head's weight only in the columns that were observed, and all other tensors in full.

    A column of zeros that Soteria did not make (a feature that is dead in all samples) is left out as well, though it
    was a fact about the sample.
    """

    name: ClassVar[str] = "masked-columns"
    knows_the_head: ClassVar[bool] = True
    requirements: ClassVar[Requirements] = Requirements(facts_for_delta=PRESCRIBED_STEPS, fits=("none", "soteria"))

    @property
    def distance(self) -> Distance:
        """Squared L2 without the masked columns."""
        return on_seen_columns


def on_seen_columns(gradients: Sequence[Tensor], observed: Sequence[Tensor]) -> tuple[Tensor, list[Tensor], Tensor]:
    """Return ||g' - o||^2 without the columns of the last but one tensor [T, K, F] that are zero in o.

    See ``matching.Distance``.
    """
    *front, weight, bias = gradients
    seen = (observed[-2] != 0).any(1, keepdim=True)
    return squared_l2([*front, torch.where(seen, weight, 0.0), bias], observed)


# Muted layer: Soteria changes one tensor only, so the attacker does without it.


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


PLUGINS = {
    "masked-columns": MaskedColumns,
    "muted-layer": MutedLayer,
}
