"""The length of a sample of which only the direction is known, where a layer has no bias that is sent.

Put through the network at the right length and sign, the sample leaves nothing of the update but rounding; so that is
sought in one number. A network that only scales with its input leaves nothing at any length: the proof then fails.
"""

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor

from leaklab.probing.algebra.closing import Closing

SHORTEST, LONGEST, TRIED = -1.5, 1.5, 19
"""Lengths tried at first, as powers of ten of that of noise, for each sign."""
TURNS = 60
GOLDEN = (5**0.5 - 1) / 2
MOST_PARAMETERS = 5_000_000


def with_length(closing: Closing, back: Callable[[float], Tensor], typical: float) -> Tensor | None:
    """Return the sample [1, ...] at the length that leaves least of the update; None where the network is too large.

    Args:
        closing: the update of one step.
        back: from a signed length to the sample.
        typical: length of what the layer sees of noise.
    """
    if closing.rehearsal.draws or not closing.names or not typical > 0:
        return None
    if sum(one.numel() for one in closing.model.parameters()) > MOST_PARAMETERS:
        return None

    def left(power: float, sign: float) -> float:
        return closing.rest(back(sign * typical * 10**power)).size

    powers = torch.linspace(SHORTEST, LONGEST, TRIED).tolist()
    tried = {(power, sign): left(power, sign) for power in powers for sign in (1.0, -1.0)}
    ends = []
    for sign in (1.0, -1.0):
        best = min(powers, key=lambda power: tried[power, sign])
        step = powers[1] - powers[0]
        power, size = _lowest(lambda at: left(at, sign), best - step, best + step)  # noqa: B023
        ends.append((size, power, sign))
        if size <= 1:
            break
    _, power, sign = min(ends)
    return back(sign * typical * 10**power)


def _lowest(function: Callable[[float], float], low: float, high: float) -> tuple[float, float]:
    """Return where a function with one valley is lowest, by golden section, and its value there."""
    points = [low, high - GOLDEN * (high - low), low + GOLDEN * (high - low), high]
    values = [function(points[1]), function(points[2])]
    for _ in range(TURNS):
        if values[0] < values[1]:
            points = [points[0], points[2] - GOLDEN * (points[2] - points[0]), points[1], points[2]]
            values = [function(points[1]), values[0]]
        else:
            points = [points[1], points[2], points[1] + GOLDEN * (points[3] - points[1]), points[3]]
            values = [values[1], function(points[2])]
        if min(values) < 0.5 or max(b - a for a, b in pairwise(points)) < 1e-15:
            break
    best = 0 if values[0] < values[1] else 1
    return points[1 + best], values[best]
