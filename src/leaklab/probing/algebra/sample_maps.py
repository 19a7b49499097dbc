"""How what a layer is applied to depends on a sample, and the way back where there is one.

A reshape, a cut into patches, a normalisation, an enlargement: all of them are affine, and a sample follows from what
the layer saw if the map is of full column rank. A mean over pixels is not, a dropped or clipped input is no affine map
at all. Nothing is assumed: the map is measured, and tried on other noise, far outside of the samples' range too.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from leaklab.attacks.least_squares import least_squares
from leaklab.records import tensor_algebra
from leaklab.records.streams import Stream

Rows = Callable[[Tensor], Tensor]
"""From samples [k, ...] to what a layer is applied to, [k, P, n]."""

LARGEST = 2048
"""Numbers of a sample up to which a map is measured whole; larger ones are read if they only move and scale entries."""
TOGETHER = 256
SINGULAR = 1e-6
"""Ratio of the smallest to the largest singular value below which a map loses something."""
AFFINE = {torch.float64: 1e-9, torch.float32: 1e-4}
"""Relative error up to which two answers are the same, by the type that they are computed in."""
FAR = 3.0


@dataclass(frozen=True, eq=False)
class SampleMap:
    """rows = linear(sample) + offset, with a left inverse.

    Attributes:
        shape: of a sample.
        places: [P, n], the shape of the rows.
        offset: the rows of a sample of zeros, [P n].
        source: of each row entry the sample's entry, [P n]; None for a map with a matrix.
        scale: its factor, [P n]; 0 for a constant.
        matrix: [P n, p]; None for a map that only moves and scales entries.
    """

    shape: tuple[int, ...]
    places: tuple[int, int]
    offset: Tensor
    source: Tensor | None = None
    scale: Tensor | None = None
    matrix: Tensor | None = None

    @property
    def size(self) -> int:
        """Return how many numbers a sample has."""
        return torch.Size(self.shape).numel()

    def back(self, rows: Tensor) -> Tensor:
        """Return the samples [k, *shape] of rows [k, P, n], by least squares."""
        return self.pulled(rows.flatten(1) - self.offset).reshape(-1, *self.shape)

    def pulled(self, rows: Tensor) -> Tensor:
        """Return the left inverse of the linear part on [k, P n], [k, p]."""
        if self.matrix is not None:
            found: Tensor = least_squares(self.matrix, rows.mT).mT
            return found
        return self._gathered(rows) / self._gathered(self.scale[None])  # type: ignore[index]

    def pushed(self, weights: Tensor) -> Tensor:
        """Return weights [m, P n] on rows as weights on a sample, [m, p]."""
        return weights @ self.matrix if self.matrix is not None else self._gathered(weights)

    def _gathered(self, values: Tensor) -> Tensor:
        assert self.source is not None
        assert self.scale is not None
        return values.new_zeros(len(values), self.size).index_add(1, self.source, values * self.scale)


def sample_map(rows: Rows, like: Tensor, draws: Stream) -> SampleMap | str:
    """Return the map from a sample to a layer's rows, or why a sample does not follow from them.

    Args:
        rows: what the layer is applied to, of samples.
        like: a sample [1, ...], of floating point.
        draws: noise for trying.
    """
    shape = tuple(like.shape[1:])
    first, second = torch.split(draws.uniform(2, *shape).to(like), 1)
    # far outside of any range too: what is clipped or rounded is then seen
    points = torch.cat([first, second, (first + second) / 2, 1 + FAR * (first - second), FAR * second - 1])
    seen = rows(points).flatten(1)
    places = tuple(rows(first).shape[1:])
    size = seen.abs().max().clamp(min=1e-300)
    if not _near(seen[2], (seen[0] + seen[1]) / 2, size):
        return "what it sees is no affine map of a sample"
    found = _selection(rows, like, places)
    found = _whole(rows, like, places) if found is None else found
    if isinstance(found, str):
        return found
    made = _applied(found, points)
    if not all(_near(one, other, size) for one, other in zip(made, seen, strict=True)):
        return "what it sees is no affine map of a sample"
    return found


def _at(rows: Rows, point: Tensor) -> Tensor:
    return rows(point).flatten(1)[0]


def _near(first: Tensor, second: Tensor, size: Tensor) -> bool:
    return bool((first - second).abs().max() <= AFFINE[first.dtype] * size)


def _applied(found: SampleMap, points: Tensor) -> Tensor:
    flattened = points.flatten(1)
    if found.matrix is not None:
        return flattened @ found.matrix.mT + found.offset
    assert found.scale is not None
    return flattened[:, found.source] * found.scale + found.offset


def _selection(rows: Rows, like: Tensor, places: tuple[int, ...]) -> SampleMap | str | None:
    """Return a map that moves and scales single entries; None if it is none, a reason if it leaves some out.

    The places of a sample are numbered; the bits of the numbers are fed one after another, and read again at the rows.
    """
    size = like[0].numel()
    zero, one = torch.zeros_like(like), torch.ones_like(like)
    offset = _at(rows, zero)
    scale = _at(rows, one) - offset
    numbers = torch.arange(size, device=like.device)
    source, live = torch.zeros_like(scale, dtype=torch.long), scale.abs() > AFFINE[like.dtype] * scale.abs().max()
    for bit in range(max(1, (size - 1).bit_length())):
        code = (numbers >> bit) & 1
        answer = (_at(rows, code.to(like).reshape(like.shape)) - offset)[live] / scale[live]
        if not bool(((answer - answer.round()).abs() <= AFFINE[like.dtype] ** 0.5).all()):
            return None
        whole = answer.round().long()
        if not bool(((whole == 0) | (whole == 1)).all()):
            return None
        source[live] += whole << bit
    if int(source.max()) >= size:
        return None
    scale = torch.where(live, scale, 0.0)
    missing = size - len(torch.unique(source[live]))
    found = SampleMap(tuple(like.shape[1:]), (places[0], places[1]), offset, source, scale)
    other = torch.linspace(-1, 1, size, dtype=like.dtype, device=like.device).reshape(like.shape)
    if not _near(_applied(found, other)[0], _at(rows, other), scale.abs().max() + offset.abs().max()):
        return None
    return f"it does not see {missing} of the {size} numbers of a sample" if missing else found


def _whole(rows: Rows, like: Tensor, places: tuple[int, ...]) -> SampleMap | str:
    """Return a map as a matrix, or a reason: it is too large to be measured, or loses something."""
    size = like[0].numel()
    if size > LARGEST:
        return f"a sample has {size} numbers, and how they are mixed before it is measured up to {LARGEST}"
    offset = _at(rows, torch.zeros_like(like))
    units = torch.eye(size, dtype=like.dtype, device=like.device).reshape(size, *like.shape[1:])
    columns = [rows(some).flatten(1) - offset for some in torch.split(units, TOGETHER)]
    matrix = torch.cat(columns).mT.contiguous()
    sizes = tensor_algebra.singular_values(matrix)
    kept = int((sizes > SINGULAR * sizes[0]).sum())
    if kept < size:
        return f"it sees only {kept} numbers of a sample's {size}"
    return SampleMap(tuple(like.shape[1:]), (places[0], places[1]), offset, matrix=matrix)
