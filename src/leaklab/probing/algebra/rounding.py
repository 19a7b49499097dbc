"""What rounding leaves of a sent tensor: the size of its noise, and the rank that stands above it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from leaklab.probing.case import Case
from leaklab.records import tensor_algebra
from leaklab.records.streams import stream

SKETCH = 512
"""Rows and columns to which larger matrices are mixed down before their rank is counted."""
EDGE = 4.0
"""Largest singular value that rounding makes, as a multiple of what noise of its size would have."""
GAP = 100.0
"""Ratio of neighbouring singular values from which it is a gap."""


def floor(case: Case, name: str) -> float:
    """Return the rms error that rounding left in an entry of ``direction(name)``, in its units.

    A gradient has the error of its own type, or of mixed precision; a difference of weights that of the weights too.
    """
    sent = case.exchange.sent[name]
    precision = case.client.precision
    steps = _step(sent.dtype) if precision is None else max(_step(sent.dtype), _step(precision))
    error = 2 * steps * _rms(sent if case.exchange.kind != "weights" else case.exchange.direction(name))
    if case.exchange.kind != "gradient":
        before = case.exchange.before[name]
        error += 0.5 * _step(before.dtype) * _rms(before)
    return error


def _step(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps if dtype.is_floating_point else 0.0


def _rms(values: Tensor) -> float:
    return float(values.double().square().mean().sqrt()) if values.numel() else 0.0


def as_matrix(values: Tensor) -> Tensor:
    """Return a tensor [a, ...] as the matrix [a, b] that its layer multiplies by; a vector as one column."""
    return values.reshape(len(values), -1) if values.dim() else values.reshape(1, 1)


@dataclass(frozen=True)
class Rank:
    """How many independent rows a matrix has above its rounding.

    Attributes:
        value: the number; a lower bound where ``capped``.
        capped: whether only the first ``SKETCH`` could be counted, and all of them are there.
    """

    value: int
    capped: bool = False


def rank(matrix: Tensor, error: float) -> Rank:
    """Return the numerical rank of [a, b]: where the widest gap between its singular values is.

    Values below what noise of rms ``error`` makes count as that noise. Where no gap is wide, all above it count.
    """
    values, capped = _mixed_down(matrix.double())
    rows, columns = values.shape
    sizes = tensor_algebra.singular_values(values)
    noise = EDGE * error * (rows**0.5 + columns**0.5) + torch.finfo(torch.float64).eps * float(sizes[:1].sum())
    above = int((sizes > noise).sum())
    if not above:
        return Rank(0)
    floored = torch.cat([sizes[:above], sizes.new_tensor([max(noise, 1e-300)])])
    ratios = floored[:-1] / floored[1:]
    found = int(ratios.argmax()) + 1 if bool(ratios.max() > GAP) else above
    return Rank(found, capped and found == min(rows, columns))


def _mixed_down(matrix: Tensor) -> tuple[Tensor, bool]:
    """Return the matrix with at most ``SKETCH`` rows and columns, and whether any were lost."""
    lost = False
    for axis in (0, 1):
        size = matrix.shape[axis]
        if size <= SKETCH:
            continue
        if min(matrix.shape) <= SKETCH:
            # one long side keeps all of the rank: its triangle has the same singular values
            matrix = torch.linalg.qr(matrix if axis == 0 else matrix.mT, mode="r").R
            matrix = matrix if axis == 0 else matrix.mT
            continue
        mixing = stream(size, "sketch").normal(SKETCH, size)
        mixing = (mixing / SKETCH**0.5).to(matrix)
        matrix, lost = (mixing @ matrix if axis == 0 else matrix @ mixing.mT), True
    return matrix, lost
