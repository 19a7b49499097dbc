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


PLUGIN = MeanSquaredError
