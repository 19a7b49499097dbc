"""Whether an image was read exactly: PSNR above 60 dB, so that all 8-bit gray levels are right."""

from torch import Tensor

from leaklab.metrics.base import Metric, MetricCard
from leaklab.metrics.mse import MeanSquaredError

EXACT_DB = 60.0


class ExactShare(Metric):
    """1 where an image comes back exactly, else 0; its mean is the share of images."""

    @property
    def card(self) -> MetricCard:
        """Return the metric card."""
        return MetricCard(
            name="exact_share",
            unit="",
            better="lower",
            domain="[0, 1]",
            peak=1.0,
            clamping="reconstruction clamped to [0, 1]",
            network="",
            input_range="[0, 1]",
            averaging="mean over the images: the share of them",
            note=f"exact: PSNR above {EXACT_DB:g} dB; a step of 8-bit gray levels is 48 dB",
        )

    def values(self, reconstruction: Tensor, truth: Tensor) -> Tensor:
        """Return 1.0 for each exact image and 0.0 for the others, [N]."""
        return exact(MeanSquaredError().values(reconstruction, truth))


def exact(error: Tensor) -> Tensor:
    """Return 1.0 where a mean squared error on [0, 1] is that of an exact image, else 0.0, in its shape."""
    return (error < 10 ** (-EXACT_DB / 10)).to(error)


PLUGIN = ExactShare
