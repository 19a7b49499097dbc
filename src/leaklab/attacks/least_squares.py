"""Least squares of small systems, the same on every device."""

from torch import Tensor

from leaklab.records import tensor_algebra


def least_squares(a: Tensor, b: Tensor, driver: str = "gelsy") -> Tensor:
    """Return the x of smallest norm that minimises ||a x - b||: [*, N, K].

    GPUs offer one method only, which takes full rank for granted and returns any numbers where there is none, so small
    systems are solved on the processor.

    Args:
        a: [*, M, N].
        b: [*, M, K].
        driver: of LAPACK; ``gelsy`` and ``gelsd`` find the rank.
    """
    return tensor_algebra.least_squares_of(a.cpu(), b.cpu(), driver).to(a.device)
