"""The perceptual distances that have a derivative, for what is searched by descent."""

from collections.abc import Callable

from torch import Tensor

from leaklab.metrics.perceptual import PerceptualDistance
from leaklab.records import plugins
from leaklab.records.errors import UserError


def differentiable(name: str) -> Callable[[Tensor, Tensor], Tensor] | None:
    """Return the distance of pictures [N, C, H, W] in [0, 1] to others, one per picture; None for an empty name.

    Raises:
        UserError: a metric that has no derivative.
    """
    if not name:
        return None
    metric = plugins.load("metrics", name)
    if not isinstance(metric, PerceptualDistance):
        raise UserError(f"metric '{name}' has no derivative here: choose an lpips one for 'perceptual', or none")
    return metric.distances
