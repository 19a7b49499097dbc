"""Whether a certificate was wrong: an image of an update that the attack certified, and that is not exact."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor

from leaklab.metrics.base import MetricCard
from leaklab.metrics.certified import Certified, certified
from leaklab.metrics.exact_share import EXACT_DB, exact
from leaklab.metrics.of_search import SearchMetric


@dataclass(frozen=True)
class FalseCertificate(SearchMetric):
    """1 for each image that the attack certified and that is not exact; 0 throughout where certificates hold."""

    reads_the_search: ClassVar[bool] = True

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


PLUGIN = FalseCertificate
