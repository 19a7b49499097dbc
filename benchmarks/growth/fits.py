"""The exponent of a curve: a constant plus a power of what grows, by least squares of logarithm against logarithm."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log, sqrt

import numpy as np

ABOVE = 1.1
"""A point is part of what grows where it is so many times the constant."""
LEAST_POINTS = 3
GRID, ZOOMS = 60, 3
LARGEST = 0.99999
"""Of the smallest y, what the constant can be."""
DISTINCT = 10.0
"""A curve grows where its largest value is above its smallest one by so many times what a point has to be."""


@dataclass(frozen=True)
class Fit:
    """``y = constant + factor * x ** exponent``.

    Attributes:
        constant: in the unit of y; all that can be said of a curve that does not grow.
        factor: y of one unit of x above the constant.
        exponent: of the part above the constant; None where the curve does not grow.
        error: standard error of the exponent.
        low: smallest x of the points that were fitted.
        high: largest.
        residual: what the fit is off by, as a factor: of all points, root mean square.
        end: exponent between the two largest points, above the constant.
    """

    constant: float
    factor: float = 0.0
    exponent: float | None = None
    error: float = 0.0
    low: float = 0.0
    high: float = 0.0
    residual: float = 1.0
    end: float = 0.0

    def at(self, x: float) -> float:
        """Return y."""
        return self.constant + (self.factor * float(x**self.exponent) if self.exponent is not None else 0.0)


def fitted(xs: Sequence[float], ys: Sequence[float], above: float = ABOVE) -> Fit:
    """Return the constant with which constant and power fit all points best, each as a share of itself.

    For each constant on a grid from 0 to the smallest y, a line is drawn through the logarithms of what is above it, of
    the points that are ``above`` times as large, each with the weight of its share above; that constant is kept which
    leaves the smallest residual of all points.

    Args:
        xs: positive, rising.
        ys: positive.
        above: a point is part of what grows where it is so many times the constant; the last one has to be far above.

    Raises:
        ValueError: there are not as many of both.
    """
    if len(xs) != len(ys):
        raise ValueError(f"{len(xs)} values and {len(ys)} measurements")
    if max(ys) < (1 + DISTINCT * (above - 1)) * min(ys):
        return _flat(ys)
    best, low, high = _flat(ys), 0.0, LARGEST
    for _ in range(ZOOMS):
        step = (high - low) / GRID
        shares = [low + step * place for place in range(GRID + 1)]
        found = [(fit, share) for share in shares if (fit := _with(share * min(ys), xs, ys, above))]
        if not found:
            break
        best, share = min(found, key=lambda one: one[0].residual)
        low, high = max(0.0, share - step), min(LARGEST, share + step)
    return best


def _flat(ys: Sequence[float]) -> Fit:
    middle = exp(sum(map(log, ys)) / len(ys))
    return Fit(middle, residual=_residual([middle] * len(ys), ys))


def _with(constant: float, xs: Sequence[float], ys: Sequence[float], above: float) -> Fit | None:
    part = [(x, y - constant, (y - constant) / y) for x, y in zip(xs, ys, strict=True) if y >= above * constant]
    if len(part) < LEAST_POINTS:
        return None
    # of a measurement that is off by some share, the logarithm of what is above the constant is off by more
    x, y, weights = (
        np.log([one[0] for one in part]),
        np.log([one[1] for one in part]),
        np.array([one[2] for one in part]),
    )
    slope, start = np.polyfit(x, y, 1, w=weights)
    middle = float((weights**2 * x).sum() / (weights**2).sum())
    spread = float((weights**2 * (x - middle) ** 2).sum())
    left = float((weights**2 * (y - start - slope * x) ** 2).sum())
    error = sqrt(left / (len(part) - 2) / spread)
    end = float((y[-1] - y[-2]) / (x[-1] - x[-2]))
    fit = Fit(constant, exp(start), float(slope), error, part[0][0], part[-1][0], end=end)
    return replace(fit, residual=_residual([fit.at(one) for one in xs], ys))


def _residual(said: Sequence[float], ys: Sequence[float]) -> float:
    off = [log(one / y) ** 2 for one, y in zip(said, ys, strict=True)]
    return exp(sqrt(sum(off) / len(off)))
