"""What an update shows by itself of what was done to it before it was sent: another kind, zeros, a grid, noise."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from leaklab.probing.exchange import Exchange, Sends
from leaklab.probing.grids import rounded
from leaklab.probing.replay.bench import Fit
from leaklab.probing.replay.target import Target

SPARSE = 0.1
"""Share of entries from which zeros where a replay has none are pruning."""
LAWS: dict[str, tuple[Callable[[Tensor], Tensor], float]] = {
    "normal": (lambda sizes: torch.erf(sizes / 2**0.5), 2**0.5),
    "Laplace": (lambda sizes: 1 - torch.exp(-(2**0.5) * sizes), 5**0.5),
}
"""Distribution of sizes in units of the deviation, and the deviation of their squares."""
DISTANCE = 1.95
"""Kolmogorov's distance times the root of n, which one in a thousand draws of the law exceeds."""
SURE = 30.0
"""Twice the log-likelihood that another mistake has to gain under noise."""
LOUD = 0.7
"""Norm of noise relative to that of what was sent above which nothing is sure of what lies below it."""
ENOUGH = 500
"""Entries below which noise cannot be told from anything else."""


def kind_of(exchange: Exchange, names: Sequence[str]) -> Sends:
    """Return what was sent, judged by its size and angle to the weights before the round, if that is not as said."""
    sent = torch.cat([exchange.sent[name].double().flatten() for name in names])
    before = torch.cat([exchange.before[name].double().flatten() for name in names])
    near = float((sent - before).norm() / before.norm()) if bool(before.any()) else 0.0
    if exchange.kind == "weights":
        return "delta" if near > 0.9 and float(sent.norm()) < 0.5 * float(before.norm()) else "weights"
    cosine = float(sent @ before / (sent.norm() * before.norm()).clamp_min(1e-300))
    return "weights" if near < 0.5 and cosine > 0.9 else exchange.kind


def as_kind(exchange: Exchange, kind: Sends) -> Exchange:
    """Return the exchange read as another kind."""
    return exchange if exchange.kind == kind else replace(exchange, kind=kind)


MOVES = 1e-5
"""Share of an update above which a tensor is said to move."""


def still(target: Target, flat: Tensor) -> list[str]:
    """Return the tensors that did not move, where a replay [P] moves them; none if the others have many zeros too.

    What moves by rounding alone, as a bias does in front of a normalisation by the batch, is not said to have moved.
    """
    least = MOVES * float(flat.norm())
    names = [
        entry.name
        for entry, own in zip(target.tensors(flat), _pieces(target, flat), strict=True)
        if float(own.norm()) > least and not bool(target.exchange.direction(entry.name).any())
    ]
    live = torch.cat(
        [
            torch.full_like(own, float(name not in names))
            for name, own in zip(target.names, _pieces(target, flat), strict=True)
        ]
    )
    gone = (target.sent == 0) & (flat != 0) & (live > 0)
    return [] if float(gone.sum()) >= SPARSE * max(float(live.sum()), 1.0) else names


def _pieces(target: Target, flat: Tensor) -> Sequence[Tensor]:
    return torch.split(flat, [target.exchange.sent[name].numel() for name in target.names])


def support(target: Target, flat: Tensor) -> Tensor | None:
    """Return the entries that are not zero [K], if the others are too many for a replay [P]; None if not."""
    gone = (target.sent == 0) & (flat != 0)
    live = target.sent != 0
    return live.nonzero().flatten() if float(gone.double().mean()) >= SPARSE and bool(live.any()) else None


def pruned(target: Target, flat: Tensor) -> str:
    """Return how entries of a replay [P] were chosen that were set to zero, in words."""
    gone, kept = (target.sent == 0) & (flat != 0), target.sent != 0
    share = float(gone.double().sum() / (gone | kept).double().sum())
    size = flat.abs()
    least = float(size[kept].amin())
    if float((size[gone] <= least * 1.001).double().mean()) > 0.999:
        way = "the smallest of all"
    else:
        within = [
            _smallest(*parts) for parts in zip(*(_pieces(target, one) for one in (size, gone, kept)), strict=True)
        ]
        way = "the smallest of each tensor" if all(within) else "not by their size"
    return f"{100 * share:.3g} % of the entries set to zero, {way}"


def _smallest(size: Tensor, gone: Tensor, kept: Tensor) -> bool:
    if not bool(gone.any()) or not bool(kept.any()):
        return True
    return bool(size[gone].amax() <= size[kept].amin() * 1.001)


def on_grid(target: Target, flat: Tensor, grid: str) -> Tensor:
    """Return a replay's directions [P] of all entries as they are after what is sent was rounded to a grid."""
    exchange, parts = target.exchange, []
    for name, own in zip(target.names, _pieces(target, flat), strict=True):
        like = exchange.sent[name]
        own = own.view(like.shape)
        if exchange.kind == "weights":
            before = exchange.before[name].double()
            parts.append((before - rounded((before - own).to(like.dtype), grid).double()).flatten())
        else:
            parts.append(rounded(own.to(like.dtype), grid).double().flatten())
    return torch.cat(parts)


@dataclass(frozen=True)
class Noise:
    """Noise on top of a hypothesis.

    Attributes:
        fit: the hypothesis.
        factor: that the replay has besides; 1 for none.
        deviation: of the noise, in units of what was sent.
        law: ``normal`` or ``Laplace``.
    """

    fit: Fit
    factor: float
    deviation: float
    law: str


def noise(target: Target, fits: Sequence[Fit]) -> Noise | None:
    """Return the fit with which the rest is noise of one law and deviation throughout; None if there is none.

    The first fit is the description; another one, or a factor, has to be surely more likely.
    """
    best: tuple[float, Noise] | None = None
    for place, fit in enumerate(fits):
        for free in (False, True):
            factor = target.factor(fit.flat) if free else 1.0
            left = target.sent - factor * fit.flat
            deviation = float(left.square().mean().sqrt())
            if not deviation:
                continue
            cost = len(left) * torch.tensor(deviation).double().log().mul(2).item()
            cost += SURE * ((place > 0) * len(fit.hypothesis) + fit.numbers + free)
            if best is None or cost < best[0]:
                law = _law(target, left, fit.flat)
                if law is not None:
                    best = (cost, Noise(fit, factor, deviation, law))
    return None if best is None else best[1]


def _law(target: Target, left: Tensor, flat: Tensor) -> str | None:
    """Return the law of noise that a rest [P] looks like in every tensor; None for none."""
    count = len(left)
    if count < ENOUGH or float(left.norm()) > LOUD * float(target.sent.norm()):
        return None
    deviation = float(left.square().mean().sqrt())
    lean = float(left @ flat / (left.norm() * flat.norm()).clamp_min(1e-300))
    if abs(lean) > 5 / count**0.5 or abs(float(left.mean())) > 5 * deviation / count**0.5:
        return None
    for law, (distribution, wide) in LAWS.items():
        parts = [part for part in _own_parts(target, left) if len(part)]
        if (
            _follows(left, deviation, distribution)
            and all(_follows(part, deviation, distribution) for part in parts)
            and all(_agrees(part, deviation, wide) for part in parts)
            and _even(target, left, flat, wide)
        ):
            return law
    return None


def _follows(part: Tensor, deviation: float, distribution: Callable[[Tensor], Tensor]) -> bool:
    """Return whether the sizes of entries follow a law (Kolmogorov and Smirnov's distance)."""
    sizes = (part.abs() / deviation).sort().values
    expected = distribution(sizes)
    places = torch.arange(len(sizes) + 1, dtype=sizes.dtype, device=sizes.device) / len(sizes)
    apart = torch.maximum((places[1:] - expected).amax(), (expected - places[:-1]).amax())
    return bool(float(apart) < DISTANCE / float(len(sizes)) ** 0.5)


def _even(target: Target, left: Tensor, flat: Tensor, wide: float) -> bool:
    """Return whether a rest is as large where the replay is large, and in every row and column of the tensors."""
    power, size = left.square() / left.square().mean() - 1, flat.abs() - flat.abs().mean()
    lean = float(power @ size / (power.norm() * size.norm()).clamp_min(1e-300))
    if abs(lean) > 5 / len(left) ** 0.5:
        return False
    places = target.places()
    for groups in places.values():
        counts = torch.bincount(groups).double()
        sums = torch.bincount(groups, weights=power.cpu())
        live = counts > 0
        scores = (sums[live].square() / counts[live]).sum() / wide**2
        number = int(live.sum())
        if float(scores) > number + 6 * (2 * number) ** 0.5 * (wide / 2**0.5) ** 2 + 10:
            return False
    return True


def _own_parts(target: Target, flat: Tensor) -> Sequence[Tensor]:
    """Return compared entries by tensor."""
    sizes = torch.tensor([target.exchange.sent[name].numel() for name in target.names])
    if target.rows is None:
        return torch.split(flat, sizes.tolist())
    counts = torch.bincount(torch.bucketize(target.rows.cpu(), sizes.cumsum(0), right=True), minlength=len(sizes))
    return torch.split(flat, counts.tolist())


def _agrees(part: Tensor, deviation: float, wide: float) -> bool:
    """Return whether entries have the deviation of all, as far as their number allows."""
    own, spread = float(part.square().mean()), 5 * wide / float(len(part)) ** 0.5 + 0.02
    return bool(abs(own / deviation**2 - 1) < spread)
