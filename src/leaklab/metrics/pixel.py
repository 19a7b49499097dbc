"""Mean squared pixel difference on the [0, 1] scale, reconstruction clamped."""

from dataclasses import dataclass

from torch import Tensor

from leaklab.metrics.base import Metric, MetricCard


def mean_squared_error(reconstruction: Tensor, truth: Tensor, clamp: bool = True) -> Tensor:
    """Return the mean squared difference of each image.

    Args:
        reconstruction: [N, ...] on the [0, 1] scale.
        truth: the same shape, in [0, 1].
        clamp: bring the reconstruction into [0, 1] first.

    Returns:
        float64, [N].
    """
    guess = reconstruction.double()
    if clamp:
        guess = guess.clamp(0, 1)
    return (guess - truth.double()).square().flatten(1).mean(1)


@dataclass(frozen=True)
class MeanSquaredError(Metric):
    """MSE of clamped images.

    Attributes:
        signed: compare on the [-1, 1] scale (four times the value), as the LRP paper's table 3 does.
    """

    signed: bool = False

    @property
    def card(self) -> MetricCard:
        """Return the metric card."""
        domain = "[-1, 1]" if self.signed else "[0, 1]"
        return MetricCard(
            name="mse_signed" if self.signed else "mse",
            unit="",
            better="higher",
            domain=domain,
            peak=None,
            clamping=f"reconstruction clamped to {domain}",
            network="",
            input_range=domain,
        )

    def values(self, reconstruction: Tensor, truth: Tensor) -> Tensor:
        """Return the MSE of each image, [N]."""
        error = mean_squared_error(reconstruction, truth)
        return (4 * error if self.signed else error).cpu()


# Mean squared pixel difference on the [0, 1] scale without clamping: a diverged attack shows as a huge value.

# keeps the square of a runaway pixel finite; far above anything that an attack has left behind
LARGEST_PIXEL = 1e12


@dataclass(frozen=True)
class RawMeanSquaredError(Metric):
    """MSE of images as the attack left them; unbounded, so its mean says little when one trial diverged."""

    @property
    def card(self) -> MetricCard:
        """Return the metric card."""
        return MetricCard(
            name="mse_raw",
            unit="",
            better="higher",
            domain="[0, 1]",
            peak=None,
            clamping=f"none up to {LARGEST_PIXEL:g}",
            network="",
            input_range="unbounded",
        )

    def values(self, reconstruction: Tensor, truth: Tensor) -> Tensor:
        """Return the unclamped MSE of each image, [N]."""
        bounded = reconstruction.double().clamp(-LARGEST_PIXEL, LARGEST_PIXEL)
        return mean_squared_error(bounded, truth, clamp=False).cpu()


# Mean squared pixel difference on the [-1, 1] scale, as the LRP paper's table 3 prints it.


@dataclass(frozen=True)
class SignedMeanSquaredError(MeanSquaredError):
    """Four times the MSE of the [0, 1] scale; see ``MeanSquaredError``."""

    signed: bool = True


# Peak signal-to-noise ratio per image: 10 log10(peak^2 / MSE), in dB.

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


# PSNR with the MSE of the [-1, 1] scale and the peak 1, as the LRP paper's table 3 prints it.


@dataclass(frozen=True)
class SignedPeakSignalToNoiseRatio(PeakSignalToNoiseRatio):
    """6.02 dB less than the PSNR of the [0, 1] scale; see ``PeakSignalToNoiseRatio``."""

    signed: bool = True


# Whether an image was read exactly: PSNR above 60 dB, so that all 8-bit gray levels are right.

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


# Structural similarity (Wang et al., IEEE TIP 13(4), 2004), by torchmetrics.

WINDOW = 11
SIGMA = 1.5
K1 = 0.01
# below it the largest odd window that fits has one pixel
SMALLEST_WINDOW = 3
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
        side = min(truth.shape[-2:])
        if side < SMALLEST_WINDOW:
            return _of_single_pixels(reconstruction.double().clamp(0, 1), truth.double()).cpu()
        from torchmetrics.functional.image import structural_similarity_index_measure  # slow to import

        scores = structural_similarity_index_measure(
            reconstruction.double().clamp(0, 1),
            truth.double(),
            sigma=_sigma(side),
            data_range=1.0,
            reduction="none",
        )
        assert isinstance(scores, Tensor)
        return scores.reshape(-1).cpu()


def _of_single_pixels(reconstruction: Tensor, truth: Tensor) -> Tensor:
    """Return the SSIM with a window of one pixel, [N]: nothing varies within it, so that the luminance is left."""
    c1 = K1**2  # of data range 1
    alike = (2 * reconstruction * truth + c1) / (reconstruction.square() + truth.square() + c1)
    return alike.flatten(1).mean(1)


def _sigma(side: int) -> float:
    """Return the sigma whose window is at most ``side`` pixels wide."""
    if side >= WINDOW:
        return SIGMA
    return ((side - 1) // 2) / SIGMAS_PER_RADIUS


PLUGINS = {
    "exact-share": ExactShare,
    "mse": MeanSquaredError,
    "mse-raw": RawMeanSquaredError,
    "mse-signed": SignedMeanSquaredError,
    "psnr": PeakSignalToNoiseRatio,
    "psnr-signed": SignedPeakSignalToNoiseRatio,
    "ssim": StructuralSimilarity,
}
