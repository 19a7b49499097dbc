"""Whether the attacker knows, without the truth, that a whole batch is exact."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from leaklab.metrics.base import MetricCard
from leaklab.metrics.of_search import SearchMetric


@dataclass(frozen=True)
class Certified(SearchMetric):
    """1 for each image of an update that the attack proved to be exact, of attacks that prove anything."""

    reads_the_search: ClassVar[bool] = True

    @property
    def card(self) -> MetricCard:
        """Return the metric card."""
        return MetricCard(
            name="certified",
            unit="",
            better="lower",
            domain="0 or 1",
            peak=1.0,
            clamping="none",
            network="",
            input_range="none: no image is compared",
            assignment="none: one value an update, repeated for each of its images",
            averaging="mean over the images: the share of them",
            note="no value for attacks that prove nothing: neither a loss of 0 nor a quotient is a proof",
        )

    def values(self, found: Mapping[str, Tensor], errors: Tensor) -> Tensor:
        """Return 1.0, 0.0 or NaN for each image, [T, B]; see ``SearchMetric``."""
        return certified(found)


def certified(found: Mapping[str, Tensor]) -> Tensor:
    """Return 1.0 for each image of an update that the attack proved, else 0.0, [T, B]; NaN where it proves none."""
    labels = found["labels"]
    proven = found["certified"].to(torch.float64) if "certified" in found else torch.full((len(labels),), torch.nan)
    return proven.double()[:, None].expand_as(labels).clone()


PLUGIN = Certified
