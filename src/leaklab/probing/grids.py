"""What rounding leaves of numbers that were sent: which grid they lie on, and how much of them that can cost."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

MANTISSA = {torch.bfloat16: 7, torch.float16: 10, torch.float32: 23, torch.float64: 52}
"""Stored bits of a type's mantissa: numbers in [1, 2) lie 2^-bits apart."""
LOWEST = {torch.bfloat16: -133, torch.float16: -24, torch.float32: -149, torch.float64: -1074}
"""Exponent of the smallest positive number."""
LEVELS = 127
"""Steps of eight bits from zero to the largest entry of a tensor."""
FEW = 8
"""Distinct values up to which a tensor lies on any grid by chance, e.g. signs."""
FIRST = 4096
"""Entries that are looked at before all the others: most tensors have been told by then."""


@dataclass(frozen=True)
class Grid:
    """A grid on which all numbers that were sent lie.

    Attributes:
        name: ``bfloat16``, ``float16``, ``float32`` or ``int8``: the largest entry of each tensor in 127 steps.
        error: root of the summed squares of what rounding to it costs, expected of numbers that lie anywhere.
    """

    name: str
    error: float


def spacing(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Return how far the numbers of a type lie apart at each value, in float64."""
    exponent = torch.frexp(values.double()).exponent - 1 - MANTISSA[dtype]
    exponent = torch.where(values == 0, LOWEST[dtype], exponent)
    return torch.exp2(exponent.clamp_min(LOWEST[dtype]).double())


def on_eight_bits(values: Tensor) -> Tensor:
    """Return values rounded to 127 steps of the largest on either side of zero, of their shape."""
    step = values.abs().amax() / LEVELS if values.numel() else values.new_zeros(())
    return (values / step).round() * step if step else values


def rounded(values: Tensor, grid: str) -> Tensor:
    """Return one tensor's values as ``grid`` leaves them, of its type and shape."""
    if grid == "int8":
        return on_eight_bits(values)
    kind: torch.dtype = getattr(torch, grid)
    return values.to(kind).to(values.dtype)


def grid_of(tensors: Mapping[str, Tensor]) -> Grid | None:
    """Return the coarsest known grid that all values lie on; None if that is the grid of their type.

    Tensors of a few distinct values only are left out, as they lie on every grid.
    """
    known = [value.detach() for value in tensors.values() if value.is_floating_point()]
    own = max((MANTISSA[value.dtype] for value in known), default=0)
    live = [value for value in known if value.numel() > FEW and _many(value)]
    if not live:
        return None
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        if MANTISSA[dtype] < own and all(_in(value, dtype) for value in live):
            squares = sum(float(spacing(value, dtype).square().sum()) for value in known)
            return Grid(str(dtype).removeprefix("torch."), (squares / 12) ** 0.5)
    if all(_on_levels(value) for value in live):
        steps = [float(value.double().abs().amax()) / LEVELS for value in known if value.numel()]
        squares = sum(step**2 * value.numel() for step, value in zip(steps, known, strict=True))
        return Grid("int8", (squares / 12) ** 0.5)
    return None


def _parts(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return a few entries, and all: what holds of the few may hold of all, else nothing more has to be looked at."""
    return values.flatten()[:FIRST], values


def _many(values: Tensor) -> bool:
    return any(torch.unique(part).numel() > FEW for part in _parts(values))


def _in(values: Tensor, dtype: torch.dtype) -> bool:
    return all(torch.equal(part, part.to(dtype).to(part.dtype)) for part in _parts(values))


def _on_levels(values: Tensor) -> bool:
    step = values.double().abs().amax() / LEVELS
    for part in _parts(values):
        scaled = part.double() / step
        levels = scaled.round()
        if not bool((scaled - levels).abs().amax() < 1e-3):
            return False
    # signs of one size lie on the outermost levels, and on any grid
    return _many(levels)
