"""What a defense draws, told from what it makes of other draws: noise, a factor, a mask, or what is not simulated.

With its draws held still a defense that adds noise is a function again, shifted by what the draws add. Where an update
of zero shows just that, it is taken off exactly; else the mean over other draws stands for it. Noise that follows the
size of what is sent is measured anew each time, against the same two draws of the experiment. Which entries a mask let
pass, everybody sees.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import sqrt

import torch
from torch import Tensor

from leaklab.probing.exchange import Exchange
from leaklab.probing.searches.defended import OTHER, SEED, Defended, Sender, Update, share
from leaklab.records.errors import UserError

FEWEST_RUNS, MOST_RUNS = 8, 64
"""Runs by which noise is measured."""
FEW_RUNS = 16
"""Of them by which a deviation is measured; a mean takes all."""
SAME, CLOSE, COLLINEAR = 1e-3, 1e-2, 1e-4
"""Relative differences up to which two ways to one tensor agree: those of two types, of noise, and of two factors."""
SURE = 6.0
"""Deviations by which the mean of noise may be longer than its number of runs allows."""


def alike(one: Mapping[str, Tensor], other: Mapping[str, Tensor], least: float = SAME) -> bool:
    """Tell whether tensors agree up to a relative difference, all together."""
    apart = sum(float((value - other[name]).square().sum()) for name, value in one.items())
    size = sum(float(value.square().sum()) for value in one.values())
    return apart <= least**2 * size


def _equal(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return all(torch.equal(value, other[name]) for name, value in one.items())


def drawn(sender: Sender, exchange: Exchange, first: Update, second: Update, runs: int, length: float) -> Defended:
    """Return what draws do to what is sent.

    Args:
        sender: the defense.
        exchange: what was sent.
        first: an update.
        second: another one.
        runs: by which noise is measured.
        length: of what was sent.

    Raises:
        UserError: something that is not simulated.
    """
    one, again, other = (_plain(sender, first, seed) for seed in (SEED, SEED, OTHER))
    if not _finite(one):
        raise UserError("what it makes of a simulated update is not finite")
    if not _equal(one, again):
        raise UserError("it gives something else each time though all draws are held still, as if it kept a state")
    elsewhere, there = (_plain(sender, second, seed) for seed in (SEED, OTHER))
    if _equal(one, other) and _equal(elsewhere, there):
        return Defended(sender)
    if _collinear(one, other) and _collinear(elsewhere, there):
        return Defended(sender, draws=True, scale_free=True)
    apart, away = _minus(one, other), _minus(elsewhere, there)
    sizes = {name: share(away[name], value) for name, value in apart.items()}
    if not alike({name: sizes[name] * value for name, value in apart.items()}, away, CLOSE):
        factors = _passed(((first, one), (first, other), (second, elsewhere), (second, there)))
        if factors is None:
            raise UserError("what it draws changes what is sent by more than noise, a factor or a mask")
        kept = {name: (exchange.direction(name) != 0).to(value) for name, value in one.items()}
        return Defended(sender, draws=True, passed=factors, kept=kept)
    fixed = all(abs(size - 1) < CLOSE for name, size in sizes.items() if bool(apart[name].any()))
    added = (_of_zero(sender, first, runs, apart) if fixed else None) or _averaged(sender, first, runs, one)
    noise = _deviations(sender, first, runs, added)
    found = Defended(sender, True, added, {} if fixed else apart, deviations=noise)
    return found if fixed else replace(found, deviations=_at_length(found, first, length))


def _passed(runs: Sequence[tuple[Update, Mapping[str, Tensor]]]) -> dict[str, float] | None:
    """Return the factor of the entries of each tensor that draws let pass; None where others are not set to zero."""
    factors = {}
    for name in runs[0][1]:
        would, sent = (torch.cat([one.flatten() for one in side]) for side in zip(
            *((update[0][name], given[name]) for update, given in runs), strict=True
        ))  # fmt: skip
        there = (sent != 0).to(sent)
        factors[name] = share(sent, there * would)
        if float((sent - factors[name] * there * would).norm()) > SAME * float(sent.norm()):
            return None
    return factors


def _plain(sender: Sender, update: Update, seed: int) -> dict[str, Tensor]:
    with torch.no_grad():
        return sender.held(*update, seed)


def _finite(sent: Mapping[str, Tensor]) -> bool:
    return all(bool(one.isfinite().all()) for one in sent.values())


def _minus(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value - other[name] for name, value in one.items()}


def _collinear(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    a, b = (torch.cat([value.flatten() for value in sent.values()]) for sent in (one, other))
    rest = a - share(a, b) * b
    return float(rest.norm()) <= COLLINEAR * float(a.norm())


def _seeds(runs: int) -> range:
    return range(OTHER + 1, OTHER + 1 + runs)


def _of_zero(sender: Sender, update: Update, runs: int, apart: Mapping[str, Tensor]) -> dict[str, Tensor] | None:
    """Return what held draws add: what is sent of an update of zero, where that is noise alone; None where not."""
    zero = {name: torch.zeros_like(one) for name, one in update[0].items()}
    found = [_plain(sender, (zero, update[1]), seed) for seed in (SEED, OTHER, *_seeds(runs))]
    if not all(_finite(one) for one in found) or not alike(_minus(found[0], found[1]), apart, CLOSE):
        return None
    for name in apart:
        every = torch.stack([one[name].flatten() for one in found])
        # the mean of noise is as long as its number of runs allows
        wanted = float(every.var(0).sum()) / len(found)
        if float(every.mean(0).square().sum()) > wanted * (1 + SURE * sqrt(2 / every.shape[1])) + 1e-20:
            return None
    return found[0]


def _averaged(sender: Sender, update: Update, runs: int, one: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what held draws add: what is sent less the mean over other draws."""
    mean = {name: torch.zeros_like(value) for name, value in one.items()}
    for seed in _seeds(runs):
        for name, value in _plain(sender, update, seed).items():
            mean[name] += value / runs
    return _minus(one, mean)


def _deviations(sender: Sender, update: Update, runs: int, added: Mapping[str, Tensor]) -> dict[str, float]:
    """Return the deviation of what is drawn, by tensor."""
    every = [_plain(sender, update, seed) for seed in _seeds(min(runs, FEW_RUNS))]
    return {name: float(torch.stack([one[name] for one in every]).var(0).mean().sqrt()) for name in added}


def _at_length(found: Defended, update: Update, length: float) -> dict[str, float]:
    """Return the deviations of an update as long as what was sent, where noise follows the update."""
    sent = _plain(found.sender, update, SEED)
    own = sqrt(sum(float(one.square().sum()) for one in sent.values()))
    scaled = {name: one * (length / own if own else 1.0) for name, one in update[0].items()}
    one, other = (_plain(found.sender, (scaled, update[1]), seed) for seed in (SEED, OTHER))
    return {
        name: size * abs(share(one[name] - other[name], found.against[name])) for name, size in found.deviations.items()
    }
