"""One number per trial beside tensors of any shape."""

from torch import Tensor


def by_trial(factor: Tensor, like: Tensor) -> Tensor:
    """Return ``factor`` [T] with as many dimensions as ``like`` [T, ...], so that their product is by trial."""
    return factor.view(-1, *[1] * (like.dim() - 1))
