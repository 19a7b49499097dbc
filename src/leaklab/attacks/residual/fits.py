"""What the gradients of convolutions tell of their common input: least squares, and the cells that were wrongly on.

Of errors e [O, P] at a convolution's output its gradient is G[o, i, k] = sum_p e[o, p] u[i, seen(k, p)], the same
equations for each channel i of the input u. The errors are known but for which cells of the ReLU behind are on, and of
these only some are in doubt: where rounding decides. They are set one after the other, each by what the residual says.

Source: ours.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from leaklab.attacks.residual.structure import Reader
from leaklab.records import tensor_algebra

CLOSED = 1e-6
"""Relative residual from which on a fit counts as right; rounding of a float32 gradient leaves 1e-7 to 4e-7."""
ROUNDED, MOST_ROUNDED = 1.0, 1e-4
"""Where more is lost to rounding, as of a delta at a small rate: so many times that, but no more than so much."""
RANK = 1e-6
"""Least singular value that is no rounding, relative to the largest."""
UNSEEN = 1e-8
"""Share of a cell outside of what the equations see, from which on it is not known."""
MOST_FLIPS, CLEAR = 40, 20.0
"""Cells that are changed at most; the gain of a change, in variances of an equation, below which it says nothing."""


@dataclass(frozen=True, eq=False)
class Equations:
    """What one convolution tells of its input.

    Attributes:
        reader: the convolution.
        gradient: of its kernels, [O, I, k, k'].
        noise: rms error of an entry.
        errors: the loss's derivative at its output wherever the bend behind is on, [O, H, W].
        on: which cells of that bend are on, [O, H, W]; None where the errors are known as they are.
        unsure: cells of it that may be changed, [O, H, W].
    """

    reader: Reader
    gradient: Tensor
    noise: float
    errors: Tensor
    on: Tensor | None
    unsure: Tensor | None

    @property
    def at(self) -> Tensor:
        """The errors of cells that are on, [O, P]."""
        return (self.errors if self.on is None else self.errors * self.on).flatten(1)

    @cached_property
    def target(self) -> Tensor:
        """The gradient as ``rows`` orders it, [O K, I]."""
        return self.gradient.flatten(2).transpose(1, 2).flatten(0, 1)

    def rows(self, sides: tuple[int, int]) -> Tensor:
        """Return the gradient as a linear function of one channel of the input, [O K, H W]."""
        cells, at, seen = sides[0] * sides[1], self.at, self.reader.seen(*sides)
        empty = at.new_zeros(len(at), len(seen), cells + 1)
        sent = at[:, None].expand(-1, len(seen), -1).contiguous()
        return empty.scatter_add_(2, seen.expand(len(at), -1, -1), sent)[..., :-1].flatten(0, 1)


@dataclass(frozen=True, eq=False)
class Fit:
    """A convolution's input by least squares.

    Attributes:
        values: [I, H, W].
        equations: that it was made of, with the cells as they were set.
        residual: relative.
        bar: residual that counts as rounding.
        spread: expected error of each cell, [H, W]; of one channel as of another. Infinite, and the value 0, where the
            equations say nothing of it: where no error goes.
        flips: cells that were changed.
        rank: of the equations of one channel.
    """

    values: Tensor
    equations: tuple[Equations, ...]
    residual: float
    bar: float
    spread: Tensor
    flips: int
    rank: int

    @property
    def known(self) -> Tensor:
        """Which cells the equations determine, [H, W]."""
        return self.spread.isfinite()

    @property
    def surplus(self) -> int:
        """How many equations there are beyond the unknowns; those of filters that are never on do not count."""
        rows = sum(int((one.at != 0).any(1).sum()) * one.gradient[0, 0].numel() for one in self.equations)
        return (rows - self.rank) * len(self.values)


def settled(equations: Sequence[Equations], sides: tuple[int, int], over: Callable[[], bool] = lambda: False) -> Fit:
    """Return the input that fits all the equations best, with cells in doubt set one by one while the residual falls.

    Args:
        equations: of all convolutions that take the input.
        sides: H and W of the input.
        over: asked before each change, whether time is.
    """
    best, flips, own = _fitted(equations, sides, 0), 0, tuple(equations)
    now, span = best
    while flips < MOST_FLIPS and now.residual > now.bar / 8 and any(_doubts(one) for one in own):
        if over() or 2 * now.known.sum() < now.known.numel():
            break
        gains = [_gains(one, now, span[place]) for place, one in enumerate(own)]
        place = max(range(len(own)), key=lambda one: float(gains[one].max()))
        most = float(gains[place].max())
        if not most > CLEAR * own[place].noise ** 2:
            break
        own = (*own[:place], _changed(own[place], int(gains[place].argmax())), *own[place + 1 :])
        flips += 1
        now, span = _fitted(own, sides, flips)
        if now.residual >= best[0].residual:
            break
        best = now, span
    return best[0]


def bar_of(equations: Sequence[Equations]) -> float:
    """Return the relative residual that counts as rounding."""
    size = sum(float(one.target.square().sum()) for one in equations)
    lost = (sum(one.noise**2 * one.target.numel() for one in equations) / max(size, 1e-300)) ** 0.5
    return min(max(CLOSED, ROUNDED * float(lost)), MOST_ROUNDED)


def _fitted(equations: Sequence[Equations], sides: tuple[int, int], flips: int) -> tuple[Fit, list[Tensor]]:
    """Return the fit, and for each of the equations the basis of what they can say, [O, K, H W]."""
    quiet = min(one.noise for one in equations)
    # the more exact ones count more
    weights = [quiet / one.noise for one in equations]
    rows = torch.cat([weight * one.rows(sides) for weight, one in zip(weights, equations, strict=True)])
    target = torch.cat([weight * one.target for weight, one in zip(weights, equations, strict=True)])
    channels = target.shape[1]
    span, sizes, back = tensor_algebra.svd(rows)
    kept = sizes > RANK * sizes[0]
    span, sizes, back = span[:, kept], sizes[kept], back[kept]
    known = 1 - back.square().sum(0) < UNSEEN
    found = (back.T / sizes) @ (span.T @ target)
    rest = target - rows @ found
    left = rest.numel() - len(sizes) * channels
    lost = float(rest.norm()) / left**0.5 if left else torch.inf
    spread = torch.where(known, lost * (back.T / sizes).norm(dim=1), torch.inf).view(sides)
    values, residual = (found.T * known).reshape(channels, *sides), float(rest.norm() / target.norm())
    parts, start = [], 0
    for one in equations:
        own = span[start : start + len(one.target)]
        parts.append(own.view(len(one.gradient), -1, len(sizes)))
        start += len(one.target)
    return Fit(values, tuple(equations), residual, bar_of(equations), spread, flips, len(sizes)), parts


def _doubts(one: Equations) -> bool:
    return one.unsure is not None and bool(one.unsure.any())


def _gains(one: Equations, fit: Fit, span: Tensor) -> Tensor:
    """Return by how much the square of the rest falls if a cell is changed, [O P]; 0 where that is out of doubt."""
    if one.unsure is None or one.on is None or not bool(one.unsure.any()):
        return one.errors.new_zeros(one.errors.numel())
    layer, values = one.reader.layer, fit.values
    assert not isinstance(layer.padding, str)  # such a layer is no reader
    seen = F.unfold(values[None], layer.kernel_size, layer.dilation, layer.padding, layer.stride)[0]
    patches = seen.view(len(values), -1, seen.shape[1]).permute(2, 1, 0)
    rest = one.target - one.rows((values.shape[1], values.shape[2])) @ values.flatten(1).T
    step = (one.errors * (1 - 2 * one.on.to(values))).flatten(1)
    # what a new fit would take back of a change does not count
    kept = torch.stack([(patches.transpose(1, 2) @ basis).square().sum((1, 2)) for basis in span])
    square = patches.square().sum((1, 2)) - kept
    along = torch.einsum("oki,pki->op", rest.view(len(step), -1, len(values)), patches)
    gains: Tensor = 2 * step * along - step**2 * square
    return gains.masked_fill(~one.unsure.flatten(1), 0).flatten()


def _changed(one: Equations, cell: int) -> Equations:
    assert one.on is not None
    on = one.on.contiguous().clone()
    on.view(-1)[cell] ^= True
    return replace(one, on=on)
