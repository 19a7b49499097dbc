"""Peak signal-to-noise ratio per image: 10 log10(peak^2 / MSE), in dB."""

from dataclasses import dataclass

from torch import Tensor

from leaklab.metrics.base import Metric, MetricCard
from leaklab.metrics.mse import MeanSquaredError

PEAK = 1.0
# an exact copy has an infinite PSNR, which would swallow any mean; at 80 dB the images are equal to 13 bits
CAP_DB = 80.0


@dataclass(frozen=True)
class PeakSignalToNoiseRatio(Metric):
    """PSNR of clamped images, peak 1.

    Attributes:
        signed: take the MSE on the [-1, 1] scale with the peak still at 1, as the LRP paper's table 3 does: 6.02 dB
            less.
    """

    signed: bool = False

    @property
    def card(self) -> MetricCard:
        """Return the metric card."""
        domain = "[-1, 1]" if self.signed else "[0, 1]"
        return MetricCard(
            name="psnr_signed" if self.signed else "psnr",
            unit="dB",
            better="lower",
            domain=domain,
            peak=PEAK,
            clamping=f"reconstruction clamped to {domain}",
            network="",
            input_range=domain,
            averaging="mean of per-image PSNR (never below the PSNR of the mean MSE)",
            note=f"capped at {CAP_DB:g} dB per image, the value of an exact copy",
        )

    def values(self, reconstruction: Tensor, truth: Tensor) -> Tensor:
        """Return the PSNR of each image in dB, [N], at most 80."""
        error = MeanSquaredError(signed=self.signed).values(reconstruction, truth)
        return 10 * (PEAK**2 / error.clamp(min=PEAK**2 * 10 ** (-CAP_DB / 10))).log10()


PLUGIN = PeakSignalToNoiseRatio
