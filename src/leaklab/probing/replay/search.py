"""The search over named mistakes: each alone, then in pairs, the likely ones first."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, zip_longest

import torch
from torch import Tensor

from leaklab.probing.replay.bench import FINEST, Bench, Fit
from leaklab.probing.replay.mistake import Mistake

LENGTHS = frozenset({"share", "length", "rate"})
"""Groups of mistakes that change how long an update is, more than where it points."""
NEAR = 0.05
"""Error from which a fit is taken up again in small steps, which kinks of a network disturb less."""
ALIKE = 1e-5
"""Distance up to which two explanations fit equally, if the rounding is finer."""


def singles(bench: Bench, mistakes: Iterable[Mistake], stop: float, enough: float) -> list[Fit]:
    """Return the best fit of each mistake alone; those that cannot be run are left out.

    All are run with the numbers that they start with, then fitted, those that point the right way first. Once one
    explains what was sent, only those are fitted that point as well, and those that change lengths: others would be
    equal by chance alone.

    Args:
        bench: where they are run.
        mistakes: what is tried.
        stop: error at which a fit ends.
        enough: error that explains what was sent.
    """
    begun: list[tuple[Fit, ...]] = []
    for mistake in mistakes:
        if bench.over:
            break
        tried = [bench.fit(((mistake, start),)) for start in mistake.starts]
        fits = tuple(sorted((fit for fit in tried if fit is not None), key=lambda fit: fit.error))
        if fits:
            begun.append(fits)
    found: dict[Mistake, Fit] = {fits[0].hypothesis[0][0]: fits[0] for fits in begun}
    reached = 0.0 if any(fit.error <= enough for fit in found.values()) else None
    for fits in sorted((fits for fits in begun if fits[0].numbers), key=_nearest):
        (mistake, _), *_ = fits[0].hypothesis
        if reached is not None and _nearest(fits) > 2 * reached and not mistake.groups & LENGTHS:
            continue
        best = bench.refined(fits[0], stop)
        other = min(fits, key=lambda fit: fit.aligned)
        if best.error > enough and other is not fits[0]:
            best = min(best, bench.refined(other, stop), key=lambda fit: fit.error)
        if enough < best.error < NEAR:
            best = bench.refined(best, stop, FINEST)
        found[mistake] = best
        if best.error <= enough and reached is None:
            reached = _nearest(fits)
    return list(found.values())


def _nearest(fits: Sequence[Fit]) -> float:
    return min(fit.aligned for fit in fits)


def compatible(one: Mistake, other: Mistake) -> bool:
    """Return whether two mistakes can have been made together."""
    return one is not other and one.paired and other.paired and not one.groups & other.groups


def pairs_of(fits: Sequence[Fit]) -> list[tuple[int, int]]:
    """Return which fits can go together, as places."""
    mistakes = [fit.hypothesis[0][0] for fit in fits]
    places = range(len(mistakes))
    return [(i, j) for i in places for j in places[i + 1 :] if compatible(mistakes[i], mistakes[j])]


def ranked(bench: Bench, base: Fit, fits: Sequence[Fit]) -> list[tuple[int, int]]:
    """Return pairs of fits, the likely ones first.

    Two orders take turns: what least squares leave with the description and both as they are alone, exact for small
    mistakes; and how near the nearer of the two comes alone.
    """
    pairs = pairs_of(fits)
    if not pairs:
        return []
    together = _left_together(bench.target.sent, base.flat, [fit.flat for fit in fits], pairs)
    near = [fit.aligned for fit in fits]
    first = sorted(range(len(pairs)), key=lambda place: together[place])
    second = sorted(range(len(pairs)), key=lambda place: sorted((near[pairs[place][0]], near[pairs[place][1]])))
    turns = chain.from_iterable(zip_longest(first, second))
    return [pairs[place] for place in dict.fromkeys(place for place in turns if place is not None)]


def _left_together(
    sent: Tensor, base: Tensor, flats: Sequence[Tensor], pairs: Sequence[tuple[int, int]]
) -> list[float]:
    """Return, for each pair, what least squares on (description, one, other) leave of what was sent."""
    columns = torch.stack([base, *(flat - base for flat in flats), sent], 1)
    columns = columns / columns.norm(dim=0).clamp_min(1e-300)
    gram = columns.T @ columns
    places = torch.tensor([[0, i + 1, j + 1] for i, j in pairs], device=gram.device)
    inner = gram[places.unsqueeze(2), places.unsqueeze(1)] + 1e-9 * torch.eye(3, dtype=gram.dtype, device=gram.device)
    right = gram[places, -1]
    solved = torch.linalg.solve(inner, right)
    left: list[float] = (1 - (solved * right).sum(1)).tolist()
    return left


def in_pairs(bench: Bench, base: Fit, fits: Sequence[Fit], stop: float) -> Iterator[Fit]:
    """Yield the fits of pairs until the time is over; mistakes of a pair are in the order of ``fits``."""
    for i, j in ranked(bench, base, fits):
        if bench.over:
            return
        fit = bench.fit((*fits[i].hypothesis, *fits[j].hypothesis))
        if fit is not None:
            yield bench.refined(fit, stop)


def with_parts(bench: Bench, fits: Sequence[Fit], tolerance: float, stop: float) -> list[Fit]:
    """Return fits, and of those with several mistakes that explain what was sent each mistake that does so alone.

    A mistake that changes nothing is none. The other one's own fit may have been ended by the time, at numbers that
    the pair then went on from.
    """
    alone = [
        bench.refined(part, stop)
        for fit in fits
        if fit.error <= tolerance and len(fit.hypothesis) > 1
        for made in fit.hypothesis
        if (part := bench.fit((made,))) is not None
    ]
    return [*fits, *alone]


def equals(fits: Sequence[Fit], tolerance: float, rounding: float) -> list[Fit]:
    """Return the fits that explain what was sent equally well, the simplest first.

    One with two numbers more than the simplest explains nothing more than that. Where a factor does it, other numbers
    are only other names of it.
    """
    good = [fit for fit in fits if fit.error <= tolerance]
    if not good:
        return []
    best = min(fit.error for fit in good)
    good = [fit for fit in good if fit.error <= max(10 * best, rounding, ALIKE)]
    few = min(len(fit.hypothesis) for fit in good)
    good = [fit for fit in good if len(fit.hypothesis) == few]
    fewest = min(fit.numbers for fit in good)
    good = [fit for fit in good if fit.numbers <= fewest + 1]
    if few == 1 and any(_is_factor(fit) for fit in good):
        good = [fit for fit in good if not fit.numbers or _is_factor(fit)]
    return sorted(good, key=lambda fit: fit.numbers)


def _is_factor(fit: Fit) -> bool:
    return fit.hypothesis[0][0].name == "factor"
