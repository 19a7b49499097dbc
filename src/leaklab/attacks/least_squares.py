"""Least squares of small systems, the same on every device."""

import torch
from torch import Tensor


def least_squares(a: Tensor, b: Tensor, driver: str = "gelsy") -> Tensor:
    """Return the x of smallest norm that minimises ||a x - b||: [*, N, K].

    GPUs offer one method only, which takes full rank for granted and returns any numbers where there is none, so small
    systems are solved on the processor.

    Args:
        a: [*, M, N].
        b: [*, M, K].
        driver: of LAPACK; ``gelsy`` and ``gelsd`` find the rank.
    """
    solution: Tensor = torch.linalg.lstsq(a.cpu(), b.cpu(), driver=driver).solution
    return solution.to(a.device)
