"""Mean squared pixel difference on the [0, 1] scale without clamping: a diverged attack shows as a huge value."""

from dataclasses import dataclass

from torch import Tensor

from leaklab.metrics.base import Metric, MetricCard
from leaklab.metrics.mse import mean_squared_error

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


PLUGIN = RawMeanSquaredError
