"""The loss that the attack ended with: how well its images explain the update, whether they show anything or not.

Source: OUTPOST paper, tables IV and V ("reconstruction loss").
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from leaklab.metrics.base import MetricCard
from leaklab.metrics.of_search import SearchMetric

LARGEST = 1e12
"""Stands for the loss of a trial all of whose starts diverged, so that it is scored and not dropped."""


@dataclass(frozen=True)
class ReconstructionLoss(SearchMetric):
    """The smallest loss of all starts; of a batch the same for each image."""

    reads_the_search: ClassVar[bool] = True

    @property
    def card(self) -> MetricCard:
        """Return the metric card."""
        return MetricCard(
            name="reconstruction_loss",
            unit="",
            better="higher",
            domain="the attack's own loss, its prior included",
            peak=None,
            clamping=f"{LARGEST:g} where all starts diverged",
            network="",
            input_range="none: no image is compared",
            assignment="none: one value an update, repeated for each of its images",
            note="what the attacker sees of its success; a small loss does not say that the images show anything",
        )

    def values(self, found: Mapping[str, Tensor], errors: Tensor) -> Tensor:
        """Return the losses [T, B]; see ``SearchMetric``."""
        least = found["candidate_losses"].double().amin(1).clamp(max=LARGEST)
        return least[:, None].expand_as(found["labels"]).clone()


PLUGIN = ReconstructionLoss
