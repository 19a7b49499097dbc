"""Decompositions of tensors [*, M, N] that take another driver of LAPACK where the usual one does not converge.

See ``linear_algebra``. The other driver works on the processor, matrix by matrix, and its result has no gradient: a
matrix that asks for one is not decomposed anew. GPUs have second drivers of their own.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from leaklab.records import linear_algebra
from leaklab.records.linear_algebra import Floats

NotConvergedError: type[Exception] = torch.linalg.LinAlgError  # type: ignore[attr-defined]
NO_ALGEBRA = (np.linalg.LinAlgError, NotConvergedError)
"""What linear algebra raises that does not converge on a finite matrix, or finds a singular one."""
Parts = tuple[Tensor, ...]


def svd(matrix: Tensor, *, full: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Return U, the singular values and V^T; ``full`` adds what makes both square.

    Raises:
        torch.linalg.LinAlgError: no driver converges.
    """
    left, sizes, right = _decomposed(
        lambda: tuple(torch.linalg.svd(matrix, full_matrices=full)),
        lambda one: linear_algebra.other_svd(one, full),
        matrix,
    )
    return left, sizes, right


def singular_values(matrix: Tensor) -> Tensor:
    """Return the singular values [*, K], the largest first; errors as ``svd``."""
    (sizes,) = _decomposed(
        lambda: (torch.linalg.svdvals(matrix),), lambda one: linear_algebra.other_svd(one, False)[1:2], matrix
    )
    return sizes


def eigh(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues [*, N], the smallest first, and vectors of symmetric matrices; errors as ``svd``."""
    values, vectors = _decomposed(lambda: tuple(torch.linalg.eigh(matrix)), linear_algebra.other_eigh, matrix)
    return values, vectors


def eigenvalues(matrix: Tensor) -> Tensor:
    """Return the eigenvalues [*, N] of symmetric matrices, the smallest first; errors as ``svd``."""
    (values,) = _decomposed(
        lambda: (torch.linalg.eigvalsh(matrix),), lambda one: linear_algebra.other_eigh(one)[:1], matrix
    )
    return values


def pseudo_inverse(matrix: Tensor) -> Tensor:
    """Return the pseudo-inverses [*, N, M]; errors as ``svd``."""
    cutoff = max(matrix.shape[-2:]) * torch.finfo(matrix.dtype).eps
    (found,) = _decomposed(
        lambda: (torch.linalg.pinv(matrix),), lambda one: (linear_algebra.other_pseudo_inverse(one, cutoff),), matrix
    )
    return found


def rank(matrix: Tensor, share: float | None = None) -> int:
    """Return how many singular values of [M, N] are above a share of the largest; None for rounding's.

    Raises:
        torch.linalg.LinAlgError: no driver converges.
    """
    cutoff = max(matrix.shape) * torch.finfo(matrix.dtype).eps if share is None else share

    def other(one: Floats) -> tuple[Floats, ...]:
        sizes = linear_algebra.other_svd(one, False)[1]
        return (np.asarray((sizes > cutoff * sizes.max(initial=0)).sum()),)

    (found,) = _decomposed(lambda: (torch.linalg.matrix_rank(matrix, rtol=share),), other, matrix)
    return int(found)


def spectral_norm(matrix: Tensor) -> Tensor:
    """Return the largest singular value of each matrix, [*]; errors as ``svd``."""
    (found,) = _decomposed(
        lambda: (torch.linalg.matrix_norm(matrix, 2),),
        lambda one: (np.asarray(linear_algebra.other_svd(one, False)[1].max(initial=0)),),
        matrix,
    )
    return found


def least_squares_of(a: Tensor, b: Tensor, driver: str) -> Tensor:
    """Return the x [*, N, K] of smallest norm that minimises ||a x - b||, of tensors on the processor.

    Args:
        a: [*, M, N].
        b: [*, M, K].
        driver: the usual one.

    Raises:
        torch.linalg.LinAlgError: no driver converges.
    """
    try:
        solution: Tensor = torch.linalg.lstsq(a, b, driver=driver).solution
    except NotConvergedError as error:
        columns = a.shape[-1]
        sides = (a[..., 0, 0] + b[..., 0, 0]).shape
        joined = torch.cat([one.expand(*sides, *one.shape[-2:]) for one in (a, b)], -1)
        (solution,) = _otherwise(
            lambda one: (linear_algebra.other_least_squares(one[:, :columns], one[:, columns:]),), joined, error
        )
    return solution


def _decomposed(usual: Callable[[], Parts], other: Callable[[Floats], tuple[Floats, ...]], matrix: Tensor) -> Parts:
    """Return the parts that a driver finds of each matrix, the usual one's where it converges."""
    try:
        return usual()
    except NotConvergedError as error:
        return _otherwise(other, matrix, error)


def _otherwise(other: Callable[[Floats], tuple[Floats, ...]], matrix: Tensor, error: Exception) -> Parts:
    """Return the parts that another driver finds of each matrix, or raise the usual one's error."""
    if matrix.requires_grad or not bool(matrix.isfinite().all()):
        raise error
    whole = matrix.detach().cpu()
    try:
        parts = zip(*[other(one.numpy()) for one in whole.reshape(-1, *whole.shape[-2:])], strict=True)
    except np.linalg.LinAlgError:
        raise error from None
    stacked = (torch.stack([torch.as_tensor(one) for one in part]) for part in parts)
    return tuple(part.reshape((*whole.shape[:-2], *part.shape[1:])).to(matrix.device) for part in stacked)
