"""Structural similarity (Wang et al., IEEE TIP 13(4), 2004), by torchmetrics."""

from dataclasses import dataclass

from torch import Tensor
from torchmetrics.functional.image import structural_similarity_index_measure

from leaklab.metrics.base import Metric, MetricCard

WINDOW = 11
SIGMA = 1.5
# torchmetrics cuts its Gaussian window at this many sigmas
SIGMAS_PER_RADIUS = 3.5


@dataclass(frozen=True)
class StructuralSimilarity(Metric):
    """SSIM with a Gaussian window 11, sigma 1.5, K = (0.01, 0.03), data range 1, mean over channels."""

    @property
    def card(self) -> MetricCard:
        """Return the metric card."""
        return MetricCard(
            name="ssim",
            unit="",
            better="lower",
            domain="[0, 1]",
            peak=1.0,
            clamping="reconstruction clamped to [0, 1]",
            network="",
            input_range="[0, 1], data range 1",
            note="Gaussian window 11, sigma 1.5, K = (0.01, 0.03), mean over channels and all pixels, borders "
            "mirrored; sides below 11 pixels: the largest odd window that fits, sigma = its radius / 3.5",
        )

    def values(self, reconstruction: Tensor, truth: Tensor) -> Tensor:
        """Return the SSIM of each image, [N], in [-1, 1]."""
        scores = structural_similarity_index_measure(
            reconstruction.double().clamp(0, 1),
            truth.double(),
            sigma=_sigma(min(truth.shape[-2:])),
            data_range=1.0,
            reduction="none",
        )
        assert isinstance(scores, Tensor)
        return scores.reshape(-1).cpu()


def _sigma(side: int) -> float:
    """Return the sigma whose window is at most ``side`` pixels wide."""
    if side >= WINDOW:
        return SIGMA
    return ((side - 1) // 2) / SIGMAS_PER_RADIUS


PLUGIN = StructuralSimilarity
