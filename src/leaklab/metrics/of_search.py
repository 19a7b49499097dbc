"""The loss that the attack ended with: how well its images explain the update, whether they show anything or not.

Source: OUTPOST paper, tables IV and V ("reconstruction loss").
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from leaklab.metrics.base import MetricCard, SearchMetric
from leaklab.metrics.pixel import EXACT_DB, exact
from leaklab.records.traits import MetricTraits

LARGEST = 1e12
"""Stands for the loss of a trial all of whose starts diverged, so that it is scored and not dropped."""


@dataclass(frozen=True)
class ReconstructionLoss(SearchMetric):
    """The smallest loss of all starts; of a batch the same for each image."""

    traits: ClassVar[MetricTraits] = MetricTraits(reads_the_search=True)

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


# Whether the attacker knows, without the truth, that a whole batch is exact.


@dataclass(frozen=True)
class Certified(SearchMetric):
    """1 for each image of an update that the attack proved to be exact, of attacks that prove anything."""

    traits: ClassVar[MetricTraits] = MetricTraits(reads_the_search=True)

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


# Whether a certificate was wrong: an image of an update that the attack certified, and that is not exact.


@dataclass(frozen=True)
class FalseCertificate(SearchMetric):
    """1 for each image that the attack certified and that is not exact; 0 throughout where certificates hold."""

    traits: ClassVar[MetricTraits] = MetricTraits(reads_the_search=True)

    @property
    def card(self) -> MetricCard:
        """Return the metric card."""
        return replace(
            Certified().card,
            name="false_certificate",
            better="higher",
            clamping="reconstruction clamped to [0, 1]",
            input_range="[0, 1]",
            assignment="of the images that the attack chose",
            note=f"certified, but not exact: PSNR of at most {EXACT_DB:g} dB",
        )

    def values(self, found: Mapping[str, Tensor], errors: Tensor) -> Tensor:
        """Return 1.0 or 0.0 for each image, [T, B]; see ``SearchMetric``."""
        proven = certified(found)
        return proven * (1 - exact(errors).to(proven))


PLUGINS = {
    "certified": Certified,
    "false-certificate": FalseCertificate,
    "reconstruction-loss": ReconstructionLoss,
}
