"""PSNR with the MSE of the [-1, 1] scale and the peak 1, as the LRP paper's table 3 prints it."""

from dataclasses import dataclass

from leaklab.metrics.psnr import PeakSignalToNoiseRatio


@dataclass(frozen=True)
class SignedPeakSignalToNoiseRatio(PeakSignalToNoiseRatio):
    """6.02 dB less than the PSNR of the [0, 1] scale; see ``PeakSignalToNoiseRatio``."""

    signed: bool = True


PLUGIN = SignedPeakSignalToNoiseRatio
