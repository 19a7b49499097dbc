"""Mean squared pixel difference on the [-1, 1] scale, as the LRP paper's table 3 prints it."""

from dataclasses import dataclass

from leaklab.metrics.mse import MeanSquaredError


@dataclass(frozen=True)
class SignedMeanSquaredError(MeanSquaredError):
    """Four times the MSE of the [0, 1] scale; see ``MeanSquaredError``."""

    signed: bool = True


PLUGIN = SignedMeanSquaredError
