"""Decompositions of arrays that take another driver of LAPACK where the usual one does not converge.

The usual drivers divide and conquer (``gesdd``, ``gelsd``, ``syevd``). Now and then they give up on a finite matrix
which the older ones, by QR iterations, decompose. Where the usual one converges, its result is returned as it is. A
matrix with a number that is not finite has no decomposition, and no other driver is asked.

What finds a matrix singular (``solve``, ``inv``, ``cholesky``) has no second driver: it is singular for all of them.
"""

from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Result = TypeVar("Result")
CUTOFF = 1e-15
"""Share of the largest singular value below which ``numpy.linalg.pinv`` takes one for zero."""


def otherwise(
    usual: Callable[[], Result], other: Callable[[], Result], matrix: Floats, errors: type[Exception]
) -> Result:
    """Return what the usual driver finds, or another one where it does not converge.

    Args:
        usual: calls the usual driver.
        other: calls the other one.
        matrix: that is decomposed.
        errors: that the usual driver raises.

    Raises:
        numpy.linalg.LinAlgError: neither converges.
    """
    try:
        return usual()
    except errors:
        if not np.isfinite(matrix).all():
            raise
        return other()


def svd(matrix: Floats, *, full: bool = False) -> tuple[Floats, Floats, Floats]:
    """Return U, the singular values and V^T; ``full`` adds what makes both square.

    Raises:
        numpy.linalg.LinAlgError: no driver converges.
    """

    def usual() -> tuple[Floats, Floats, Floats]:
        left, sizes, right = np.linalg.svd(matrix, full_matrices=full)
        return left, sizes, right

    return otherwise(usual, lambda: other_svd(matrix, full), matrix, np.linalg.LinAlgError)


def least_squares_of(a: Floats, b: Floats) -> Floats:
    """Return the x of smallest norm that minimises ||a x - b||, of one matrix [M, N] and [M] or [M, K].

    Raises:
        numpy.linalg.LinAlgError: no driver converges.
    """

    def usual() -> Floats:
        return cast("Floats", np.linalg.lstsq(a, b, rcond=None)[0])

    return otherwise(usual, lambda: other_least_squares(a, b), a, np.linalg.LinAlgError)


def pseudo_inverse(matrix: Floats) -> Floats:
    """Return the pseudo-inverse of one matrix.

    Raises:
        numpy.linalg.LinAlgError: no driver converges.
    """

    def usual() -> Floats:
        return cast("Floats", np.linalg.pinv(matrix))

    return otherwise(usual, lambda: other_pseudo_inverse(matrix, CUTOFF), matrix, np.linalg.LinAlgError)


# The second drivers.


def other_svd(matrix: Floats, full: bool) -> tuple[Floats, Floats, Floats]:
    """Return U, the singular values and V^T of one matrix, by QR iterations."""
    from scipy.linalg import svd as decomposed  # slow to import

    left, sizes, right = decomposed(matrix, full_matrices=full, lapack_driver="gesvd", check_finite=False)
    return left, sizes, right


def other_eigh(matrix: Floats) -> tuple[Floats, Floats]:
    """Return the eigenvalues of one symmetric matrix, the smallest first, and the vectors, by QR iterations."""
    from scipy.linalg import eigh  # slow to import

    values, vectors = eigh(matrix, driver="ev", check_finite=False)
    return values, vectors


def other_least_squares(a: Floats, b: Floats) -> Floats:
    """Return the least squares of smallest norm, by QR iterations; the usual driver's cutoff."""
    from scipy.linalg import lstsq  # slow to import

    cutoff = np.finfo(a.dtype).eps * max(a.shape)
    found: Floats = lstsq(a, b, cond=cutoff, lapack_driver="gelss", check_finite=False)[0]
    return found


def other_pseudo_inverse(matrix: Floats, cutoff: float) -> Floats:
    """Return the pseudo-inverse of one matrix without singular values up to this share of the largest."""
    left, sizes, right = other_svd(matrix, full=False)
    kept = sizes > cutoff * sizes.max(initial=0)
    found: Floats = (right[kept].T / sizes[kept]) @ left[:, kept].T
    return found
