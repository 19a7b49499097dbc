"""What a step of a search asks for besides the loss, counted on small real tensors, as a search looks at numbers."""

from dataclasses import replace
from functools import cache, partial

import torch
from torch import Tensor

from leaklab.attacks.search.lbfgs import BatchedLbfgs, LbfgsSettings
from leaklab.attacks.search.signed_adam import SignedAdamSettings, signed_adam
from paper_hours.counting import Count, counted

HISTORY, TRIALS, FEW = 100, 2, 64


def lbfgs_step(unknowns: int, dtype: torch.dtype, trials: int) -> Count:
    """Return what a step of L-BFGS with a full history asks for, of so many trials together."""
    found, fewest = _lbfgs(dtype, 2 * FEW), _lbfgs(dtype, FEW)
    return _of(found, fewest, unknowns, trials)


def adam_step(unknowns: int, dtype: torch.dtype, trials: int) -> Count:
    """Return what a step of signed Adam asks for, of so many trials together."""
    return _of(_adam(dtype, 2 * FEW), _adam(dtype, FEW), unknowns, trials)


def _of(twice: Count, once: Count, unknowns: int, trials: int) -> Count:
    """Go on in a line from two numbers of unknowns; launches are shared by the trials, the rest is not."""
    each = (twice - once) * (1 / FEW)
    whole = once + each * (unknowns - FEW)
    return replace(whole * (trials / TRIALS), kernels=once.kernels)


@cache
def _lbfgs(dtype: torch.dtype, unknowns: int) -> Count:
    draws = torch.Generator().manual_seed(0)  # one of its own: counts are of operations, whatever the numbers
    curvature = torch.rand(unknowns, generator=draws, dtype=dtype) * 100 + 1
    search = BatchedLbfgs(torch.randn(TRIALS, unknowns, generator=draws, dtype=dtype), LbfgsSettings(HISTORY))
    active = torch.ones(TRIALS, dtype=torch.bool)

    found = Count()
    for _ in range(HISTORY + FEW):
        # a slope that leads nowhere, so that the search never ends before its history is full
        slope = curvature * search.point + torch.randn(TRIALS, unknowns, generator=draws, dtype=dtype)
        loss = torch.randn(TRIALS, generator=draws, dtype=dtype)
        found = counted(partial(search.advance, loss, slope, active))
    return found


@cache
def _adam(dtype: torch.dtype, unknowns: int) -> Count:
    answer = torch.ones(TRIALS, dtype=dtype), torch.ones(TRIALS, unknowns, dtype=dtype)

    def start(row: int, number: int) -> Tensor:
        return torch.zeros(unknowns, dtype=dtype)

    def of(iterations: int) -> Count:
        settings = SignedAdamSettings(iterations, 1)
        return counted(lambda: signed_adam(lambda points, rows: answer, start, TRIALS, settings))

    return of(3) - of(2)
