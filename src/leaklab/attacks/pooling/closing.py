"""Closing: the second stage's input and the winners of its pool, in turns, until they agree with the whole gradient.

With the winners known, the kernels' gradient is linear in the input a, the same equations for each channel; with a
known, the winners are those places whose errors make the gradient and whose values are the pool's outputs. From a rough
picture both are found in turns. What keeps the turns from agreeing with themselves too early:

* a is fitted to the gradient alone, not to the values and not through the picture, so that values judge it;
* filters with large residuals, which have wrong winners, hardly count;
* filters are weighed at random besides, anew in each turn, as a bootstrap does.

When all winners are right the residual falls to rounding. There are many times more equations than unknowns and
choices, so that this is a certificate that needs no truth.

Source: ours; the weights are those of iteratively reweighted least squares.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from leaklab.attacks.pooling.stages import Stage, Taken
from leaklab.records import tensor_algebra
from leaklab.records.streams import Stream

CLOSED = 1e-6
"""Relative residual below which the gradient is closed: right winners leave rounding (2e-7 for float32); one wrong
winner of a cell with a tiny error was seen to leave 9e-6, any other 2e-4 and more."""
ROUNDED, MOST_ROUNDED = 3.0, 3e-5
"""Where a delta was rounded at a small rate, right winners leave more: so many times what the head tells of it."""
VALUES_AGREE = 1e-4
"""Error of the values at the winners, relative to the largest, that a certificate may leave."""
CUT = 0.3
"""Share of the median residual at which a filter counts by half."""
SHAKE = 0.25
"""Power of the random weights of filters, which are exponential."""
TURNS, SWEEPS = 60, 3
TRUSTS = (0.06, 0.25)
"""Factors on the values' variance to try: no one number suits all."""
SEEN = 1e-12
"""Share of the largest eigenvalue below which the equations say nothing."""
RIDGE = 1e-13
NEARLY_CLOSED, FLIPS = 3e-2, 8
"""Residual from which single winners are tried, and how many of them."""
LEFT_OUT = 0.5
"""Largest share of the filters that is left out at the end."""


@dataclass(frozen=True, eq=False)
class Closing:
    """What the turns came to.

    Attributes:
        inputs: of the second stage, [I, H, W].
        winners: of its pool, [O, N].
        residual: of the kernels' gradient, relative to it.
        known: where the equations determine the input, [H, W] bool.
        proven: whether residual and values certify it.
        turns: how many were taken.
    """

    inputs: Tensor
    winners: Tensor
    residual: float
    known: Tensor
    proven: bool
    turns: int


def closed(taken: Taken, inputs: Tensor, draws: Stream, trust: float = TRUSTS[0]) -> Closing:
    """Return the best of all turns from a rough input of the second stage.

    Args:
        taken: a network taken apart.
        inputs: [I, H, W], not negative.
        draws: for the weights of filters.
        trust: factor on the values' variance, below 1 as they are exact but for the input's errors; see ``TRUSTS``.
    """
    stage, gradient = taken.stages[1], taken.gradients[1].weight
    active, unit = taken.errors != 0, float(gradient.norm())
    winners = choices_of(stage, inputs).argmax(-1)
    rests = _rests(taken, winners, inputs)
    weights = torch.ones_like(rests)
    best, best_residual, turns = (inputs, winners), torch.inf, 0
    for turn in range(TURNS):
        noise = (rests**2 / gradient.shape[1]).clamp(min=1e-24 * float(gradient.square().mean()))
        misses = (choices_of(stage, inputs) - taken.values[..., None]) ** 2
        slack = trust * float(misses.amin(-1)[active].mean().clamp(min=1e-24))
        winners = winners_of(taken, inputs, winners, noise, misses / (2 * slack))
        shaken = weights * (-draws.uniform(len(weights)).to(weights).clamp(min=1e-12).log()) ** SHAKE
        inputs = fitted(taken, winners, shaken)
        rests = _rests(taken, winners, inputs)
        weights = 1 / (1 + rests / (CUT * rests.median()).clamp(min=1e-24 * unit))
        residual = float(rests.norm()) / unit
        turns = turn + 1
        if residual < best_residual:
            best, best_residual = (inputs, winners), residual
        if residual < bar_of(taken):
            break
        inputs = inputs.clamp(min=0)
    if best_residual > bar_of(taken):
        best = _without_the_worst(taken, *best)
        best = _flipped(taken, *best)
    return judged(taken, *best, turns)


def _flipped(taken: Taken, inputs: Tensor, winners: Tensor) -> tuple[Tensor, Tensor]:
    """Return input and winners after single cells of the worst filters were given other winners, one after another."""
    unit, all_alike = taken.gradients[1].weight.norm(), torch.ones(len(winners)).to(inputs)
    for _ in range(FLIPS):
        rests = _rests(taken, winners, inputs)
        lowest = float(rests.norm())
        if not bar_of(taken) < lowest / unit < NEARLY_CLOSED:
            break
        found = (inputs, winners)
        for channel in rests.argsort(descending=True)[:2].tolist():
            for cell in taken.errors[channel].nonzero()[:, 0].tolist():
                for place in range(taken.stages[1].cells.shape[1]):
                    tried = winners.clone()
                    tried[channel, cell] = place
                    fit = fitted(taken, tried, all_alike)
                    residual = float(_rests(taken, tried, fit).norm())
                    if residual < lowest:
                        found, lowest = (fit, tried), residual
        if found[1] is winners:
            break
        inputs, winners = found
    return inputs, winners


def _without_the_worst(taken: Taken, inputs: Tensor, winners: Tensor) -> tuple[Tensor, Tensor]:
    """Return input and winners after a few filters with the largest residuals were left out, if that closes them.

    A winner or two that are wrong in a few filters pull the input just so far that they stay: an input of the other
    filters alone is exact, and then values tell the winners.
    """
    stage, active = taken.stages[1], taken.errors != 0
    rests = _rests(taken, winners, inputs)
    best, lowest = (inputs, winners), float(rests.norm())
    order = rests.argsort(descending=True)
    for left_out in range(1, 1 + int(LEFT_OUT * len(order))):
        weights = torch.ones_like(rests)
        weights[order[:left_out]] = 0
        found = fitted(taken, winners, weights)
        for _ in range(SWEEPS):
            misses = (choices_of(stage, found) - taken.values[..., None]) ** 2
            chosen = torch.where(active, misses.argmin(-1), winners)
            found = fitted(taken, chosen, weights)
        chosen = torch.where(active, ((choices_of(stage, found) - taken.values[..., None]) ** 2).argmin(-1), winners)
        found = fitted(taken, chosen, torch.ones_like(rests))
        residual = float(_rests(taken, chosen, found).norm())
        if residual < lowest:
            best, lowest = (found, chosen), residual
    return best


def bar_of(taken: Taken) -> float:
    """Return the relative residual below which the gradient counts as closed, ``CLOSED`` or what rounding leaves."""
    return min(max(CLOSED, ROUNDED * taken.rounding), MOST_ROUNDED)


def choices_of(stage: Stage, inputs: Tensor) -> Tensor:
    """Return the numbers among which each cell of the pool chooses for an input [I, H, W], [O, N, P]."""
    return stage.choices(stage.maps(stage.patches(inputs[None])))[0]


def fitted(taken: Taken, winners: Tensor, weights: Tensor) -> Tensor:
    """Return the second stage's input that fits the kernels' gradient best, [I, H, W].

    Args:
        taken: a network taken apart.
        winners: [O, N].
        weights: of the filters, [O].
    """
    stage = taken.stages[1]
    rows, target = _equations(taken, winners)
    weight = weights.repeat_interleave(len(rows) // len(weights))[:, None]
    rows, target = rows * weight, target * weight
    gram = rows.T @ rows
    gram.diagonal().add_(RIDGE * gram.diagonal().max())
    factor = torch.linalg.cholesky(gram)
    found = torch.cholesky_solve(rows.T @ target, factor)
    # normal equations square the condition: a second step brings the digits back
    found = found + torch.cholesky_solve(rows.T @ (target - rows @ found), factor)
    return found.T.reshape(stage.shape)


def winners_of(taken: Taken, inputs: Tensor, start: Tensor, noise: Tensor, misses: Tensor) -> Tensor:
    """Return the winners [O, N] that fit gradient and values best, by coordinates; filters move side by side.

    Args:
        taken: a network taken apart.
        inputs: of the second stage, [I, H, W].
        start: winners to begin with, [O, N].
        noise: variance of a filter's gradient entries, [O].
        misses: cost of each choice by its value, [O, N, P].
    """
    stage, errors = taken.stages[1], taken.errors
    patches = stage.patches(inputs[None])[0]
    products, target = patches.T @ patches, taken.gradients[1].weight @ patches
    at, winners = stage.of_winners(start, errors), start.clone()
    filters = torch.arange(len(at), device=at.device)
    for _ in range(SWEEPS):
        before = winners.clone()
        for cell, places in enumerate(stage.cells):
            own = errors[:, cell]
            at[filters, places[winners[:, cell]]] -= own
            along = (target - at @ products)[:, places]
            cost = own[:, None] ** 2 * products.diagonal()[places] - 2 * own[:, None] * along
            winners[:, cell] = (cost / (2 * noise[:, None]) + misses[:, cell]).argmin(1)
            at[filters, places[winners[:, cell]]] += own
        if bool((winners == before)[errors != 0].all()):
            break
    return winners


def _equations(taken: Taken, winners: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows [O k, H W] and their right sides [O k, I]."""
    stage = taken.stages[1]
    return stage.gradient_rows(stage.of_winners(winners, taken.errors)), stage.by_channel(taken.gradients[1].weight)


def _rests(taken: Taken, winners: Tensor, inputs: Tensor) -> Tensor:
    """Return what each filter's gradient lacks, [O]."""
    stage = taken.stages[1]
    made = stage.of_winners(winners, taken.errors) @ stage.patches(inputs[None])[0].T
    found: Tensor = torch.linalg.vector_norm(taken.gradients[1].weight - made, dim=1)
    return found


def judged(taken: Taken, inputs: Tensor, winners: Tensor, turns: int) -> Closing:
    """Return a closing with its certificate: residual, surplus of equations, and values as a witness of their own.

    Args:
        taken: a network taken apart.
        inputs: of the second stage, [I, H, W].
        winners: of its pool, [O, N].
        turns: that were taken.
    """
    stage, active = taken.stages[1], taken.errors != 0
    residual = float(_rests(taken, winners, inputs).norm() / taken.gradients[1].weight.norm())
    rows, _ = _equations(taken, winners)
    sizes, directions = tensor_algebra.eigh(rows.T @ rows)
    unseen = directions[:, sizes < SEEN * sizes[-1]]
    known = (unseen.square().sum(1) < 1e-8).view(stage.shape[1:])
    speaking = int(active.any(1).sum()) * (len(rows) // len(active))
    surplus = stage.shape[0] * (speaking - len(sizes) + unseen.shape[1])
    found = choices_of(stage, inputs).gather(-1, winners[..., None])[..., 0]
    misses = (found - taken.values)[active].abs().max() / taken.values.max()
    # fewer equations to spare than choices to make: anything would close
    proven = residual < bar_of(taken) and surplus > int(active.sum()) and float(misses) < VALUES_AGREE
    return Closing(inputs, winners, residual, known, proven, turns)
