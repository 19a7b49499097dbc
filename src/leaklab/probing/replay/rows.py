"""Searches over samples one by one: their order, which were mirrored, left out, taken twice, or labelled otherwise."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from leaklab.probing.replay.bench import Bench, Fit
from leaklab.probing.replay.mistake import Mistake, Setting, simple
from leaklab.probing.replay.samples import dropped, mirrored, relabelled, taken

Move = Callable[[Tensor], Tensor]
MOST_SAMPLES = 32
"""Samples up to which each is tried for itself."""
TURNS = 6
GAIN = 0.9
"""A turn has to leave less than this of the distance, or the search ends."""


def row_fits(bench: Bench, classes: int | None, stop: float) -> Iterator[Fit]:
    """Yield fits of mistakes about single samples.

    Args:
        bench: where they are run.
        classes: of the targets; None where they are no labels.
        stop: error that explains what was sent.
    """
    setting = bench.setting
    samples = len(setting.inputs)
    if not 1 < samples <= MOST_SAMPLES:
        return
    makers = [dropped(setting)] if classes is None else [dropped(setting), relabelled(setting, classes)]
    for maker in makers:
        for mistake in maker:
            if bench.over:
                return
            fit = bench.fit(((mistake, ()),))
            if fit is not None:
                yield fit
    if setting.inputs.is_floating_point() and setting.inputs.dim() in (3, 4):
        flips = [partial(_flip, row=row) for row in range(samples)]
        for all_of_them in (False, True):
            yield from _climbed(bench, torch.full((samples,), all_of_them), flips, _some_mirrored, stop)
    if (setting.client.batch_size or samples) < samples:
        swaps = [partial(_swap, one=one, other=other) for one in range(samples) for other in range(one + 1, samples)]
        yield from _climbed(bench, torch.arange(samples), swaps, _ordered, stop)


def _climbed(
    bench: Bench, state: Tensor, moves: Sequence[Move], made: Callable[[Tensor], Mistake], stop: float
) -> Iterator[Fit]:
    """Yield where a search ends that takes every move that brings the replay nearer, whatever its length."""
    start, best = state, bench.fit(((made(state), ()),))
    if best is None:
        return
    for _ in range(TURNS):
        before = best.aligned
        for move in moves:
            if bench.over or best.aligned <= stop:
                break
            changed = move(state)
            fit = bench.fit(((made(changed), ()),))
            if fit is not None and fit.aligned < best.aligned:
                best, state = fit, changed
        if best.aligned > GAIN * before:
            break
    if not torch.equal(state, start):
        yield best


def _flip(state: Tensor, row: int) -> Tensor:
    return state ^ (torch.arange(len(state)) == row)


def _swap(state: Tensor, one: int, other: int) -> Tensor:
    rows = torch.arange(len(state))
    rows[one], rows[other] = other, one
    return state[rows]


def _some_mirrored(rows: Tensor) -> Mistake:
    told = ", ".join(map(str, rows.nonzero().flatten().tolist()))
    return simple(
        "augmentation", f"samples {told} mirrored left to right", partial(mirrored, rows=rows), "axes", paired=False
    )


def _ordered(rows: Tensor) -> Mistake:
    told = ", ".join(map(str, rows.tolist()))
    change: Callable[[Setting], Setting] = partial(taken, rows=rows)
    return simple("order", f"samples in the order {told}", change, "order", paired=False)
