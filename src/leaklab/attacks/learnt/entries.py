"""The law of a defense entry by entry: what becomes of an entry depends on its size beside the others of its tensor.

Of each tensor, with x the entry of the gradient in a unit that is the gradient's own (its root mean square, a quantile,
its largest entry) or fixed, what is sent of it is a mixture::

    p(o | g) = sum over k of pi_k(x) p_k(o | g)

of: zero, the entry as it is, with the other sign, times a constant, with normal noise, noise alone, and a level of a
grid. The shares pi_k are a table over x. In a search the law is blurred by an error e of the entry, relative to the
root mean square of its tensor: a threshold becomes a slope, and what is exact gets a width.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from leaklab.attacks.learnt.linear import Rehearsals
from leaklab.attacks.matching.distances import Differentiated, Distance, OnlyWidened

UNITS = ("fixed", "rms", "0.5", "0.8", "0.9", "max")
CELLS, KNEE = 81, 0.05
"""Cells of the table over x, even in asinh(x / KNEE)."""
EXACT = 1e-5
"""Relative difference of what is sent exactly; a detour by float32 is closer."""
ROUNDS = 6
FAR = 1e-3
"""Share of what no component explains: keeps a slope where the rest of the law is far away."""
MOST = 4096
"""Entries of a tensor that a law is learnt from."""
SELDOM = 1e-3
TINY = 1e-300
ZERO, KEPT, TURNED, SCALED, NOISY, ALONE = range(6)


@dataclass(frozen=True)
class EntryLaw:
    """The law of one tensor.

    Attributes:
        unit: of x; see ``UNITS``.
        size: root mean square of the tensor over all rehearsals, the fixed unit.
        shares: pi, [6, CELLS].
        factor: of entries that are sent times a constant.
        noise: standard deviation of the noise beside the gradient, in units of ``size``.
        alone: the same of noise alone.
    """

    unit: str
    size: float
    shares: Tensor
    factor: float
    noise: float
    alone: float


@dataclass(frozen=True)
class EntryLaws(OnlyWidened):
    """The laws of all tensors; a ``distances.Likelihood``.

    Attributes:
        tensors: one law of each.
    """

    tensors: tuple[EntryLaw, ...]

    def widened(self, error: float, weights: Mapping[str, Tensor]) -> Distance:
        """Return the negative log-likelihood at an error; see ``distances.Likelihood``."""
        return Differentiated(partial(_value, law=self, error=error))


def learnt(rehearsals: Rehearsals) -> EntryLaws:
    """Return the law of each tensor that explains rehearsals best; the unit by images that are held out."""
    return EntryLaws(
        tuple(_learnt(g, o, rehearsals.draws) for g, o in zip(rehearsals.gradients, rehearsals.sent, strict=True))
    )


def _learnt(gradient: Tensor, sent: Tensor, draws: int) -> EntryLaw:
    rows = torch.arange(len(gradient)) // draws % 2 == 0
    size = float((gradient**2).mean().sqrt().clamp(min=TINY))
    columns = _columns(gradient)
    few, theirs = gradient[:, columns], sent[:, columns]
    owns = {unit: _own_unit(gradient, unit, size) for unit in UNITS}
    found = []
    for unit, own in owns.items():
        law = _fitted(few[rows], theirs[rows], unit, own[rows], size)
        held = _log_density(few[~rows], theirs[~rows], law, EXACT, own[~rows]) if bool((~rows).any()) else few[:0, 0]
        found.append((float(held.mean()) / len(columns) if held.numel() else 0.0, unit))
    best = max(found)[0]
    # the simplest unit that is about as good
    unit = next(unit for likelihood, unit in found if likelihood >= best - 1e-3)
    return _fitted(few, theirs, unit, owns[unit], size)


def _columns(gradient: Tensor) -> Tensor:
    """Return the entries that a law is learnt from: in a large tensor the largest ones, and some of the others.

    What becomes of an entry of a size is no other in these.
    """
    count = gradient.shape[1]
    if count <= MOST:
        return torch.arange(count)
    order = gradient.abs().mean(0).argsort(descending=True)
    others = order[MOST // 2 :]
    return torch.cat([order[: MOST // 2], others[torch.linspace(0, len(others) - 1, MOST // 2).long()]])


def _fitted(gradient: Tensor, sent: Tensor, unit: str, own: Tensor, size: float) -> EntryLaw:
    """Return the law of a tensor from [R, n] pairs by expectation and maximisation."""
    cells = _cell(gradient.abs() / own).round().long().clamp(0, CELLS - 1)
    ratio = (sent / gradient)[(gradient != 0) & (sent != 0)]
    factor = float(ratio.median()) if len(ratio) else 1.0
    factor = factor if min(abs(factor - 1), abs(factor + 1)) > EXACT else 2.0
    zero = sent == 0
    exact = {KEPT: _close(sent, gradient), TURNED: _close(sent, -gradient), SCALED: _close(sent, factor * gradient)}
    known = {ZERO: zero, **{k: mask & ~zero for k, mask in exact.items()}}
    rest = ~(zero | exact[KEPT] | exact[TURNED] | exact[SCALED])
    shares = torch.ones(6, CELLS, dtype=gradient.dtype)
    left = (sent - gradient)[rest]
    noise = float((left**2).mean().sqrt()) if len(left) else 0.0
    alone = float((sent[rest] ** 2).mean().sqrt()) if len(left) else 0.0
    belongs = torch.full_like(left, 0.5)
    for _ in range(ROUNDS if len(left) else 0):
        beside, by_itself = _normal(left, noise), _normal(sent[rest], alone)
        prior = shares[:, cells[rest]]
        odds = prior[NOISY] * beside, prior[ALONE] * by_itself
        belongs = odds[0] / (odds[0] + odds[1]).clamp(min=TINY)
        noise = float(((belongs * left**2).sum() / belongs.sum().clamp(min=TINY)).sqrt())
        alone = float((((1 - belongs) * sent[rest] ** 2).sum() / (1 - belongs).sum().clamp(min=TINY)).sqrt())
        shares = _shares(cells, known, rest, belongs)
    shares = _shares(cells, known, rest, belongs)
    return EntryLaw(unit, size, shares, factor, noise / size, alone / size)


def _close(one: Tensor, other: Tensor) -> Tensor:
    return (one - other).abs() <= EXACT * other.abs()


def _normal(value: Tensor, deviation: float | Tensor) -> Tensor:
    deviation = torch.as_tensor(deviation, dtype=value.dtype).clamp(min=TINY**0.25)
    return torch.exp(-((value / deviation) ** 2) / 2) / deviation


def _shares(cells: Tensor, known: Mapping[int, Tensor], rest: Tensor, belongs: Tensor) -> Tensor:
    """Return pi as counts in each cell; empty cells take their neighbours' shares."""
    counts = torch.zeros(6, CELLS, dtype=torch.float64)
    for k, mask in known.items():
        counts[k] += torch.bincount(cells[mask], minlength=CELLS)
    counts[NOISY] += torch.bincount(cells[rest], weights=belongs.double(), minlength=CELLS)
    counts[ALONE] += torch.bincount(cells[rest], weights=1 - belongs.double(), minlength=CELLS)
    total = counts.sum(0)
    filled = (total > 0).nonzero()[:, 0]
    nearest = filled[(torch.arange(CELLS)[:, None] - filled[None]).abs().argmin(1)]
    counts, total = counts[:, nearest], total[nearest]
    return ((counts + 1e-3 * counts.sum(1, keepdim=True) / counts.sum() + 1e-9) / (total * (1 + 1e-3) + 6e-9)).to(
        torch.float64
    )


def _own_unit(gradient: Tensor, unit: str, size: float) -> Tensor:
    """Return the unit [T, 1] of |g| [T, n] of one tensor in each trial."""
    sizes = gradient.detach().abs()
    if unit == "fixed":
        return torch.full_like(sizes[:, :1], size)
    if unit == "rms":
        own = (sizes**2).mean(1, keepdim=True).sqrt()
    elif unit == "max":
        own = sizes.max(1, keepdim=True).values
    else:
        place = int(float(unit) * (sizes.shape[1] - 1))
        own = sizes.kthvalue(place + 1, dim=1, keepdim=True).values
    return own.clamp(min=TINY)


HIGHEST = 20.0


def _cell(units: Tensor) -> Tensor:
    """Return the place of |g| in the table, as a number from 0 to CELLS - 1."""
    top = torch.asinh(torch.tensor(HIGHEST / KNEE)).item()
    return torch.asinh(units.clamp(max=HIGHEST) / KNEE) * ((CELLS - 1) / top)


def _edges() -> Tensor:
    """Return |g| in its unit at each place of the table."""
    top = torch.asinh(torch.tensor(HIGHEST / KNEE, dtype=torch.float64))
    return KNEE * torch.sinh(torch.linspace(0, 1, CELLS, dtype=torch.float64) * top)


def _blurred(shares: Tensor, width: Tensor) -> Tensor:
    """Return pi after a blur of |g| by ``width`` [T], in its unit: [T, 6, CELLS]."""
    places = _edges().to(width)
    steps = torch.gradient(places)[0]
    gaps = (places[:, None] - places[None, :]) / width.clamp(min=1e-12)[:, None, None]
    kernel = torch.exp(-(gaps**2) / 2) * steps[None, None, :]
    kernel = kernel / kernel.sum(2, keepdim=True)
    return torch.einsum("kc,tdc->tkd", shares, kernel)


def _log_density(gradient: Tensor, sent: Tensor, law: EntryLaw, error: float, own: Tensor) -> Tensor:
    """Return log p(o | g), the sum [T] over entries [T, n], blurred by an error; ``own`` is each trial's unit, [T, 1].

    Entries that are zero and those that are not are apart: most defenses that make zeros make many.
    """
    rms = (sent.detach() ** 2).mean(1, keepdim=True).sqrt().clamp(min=TINY)
    table = _blurred(law.shares, error * rms[:, 0] / own[:, 0])
    total = gradient.new_zeros(len(gradient))
    for mask, density in ((sent == 0, _of_zeros), (sent != 0, _of_others)):
        rows = mask.nonzero()[:, 0]
        if len(rows):
            at, scale = gradient[mask], rms[rows, 0]
            place = _cell(at.abs() / own[rows, 0])
            share = _Shares(table, rows, place)
            total = total.index_add(0, rows, density(at, sent[mask], law, share, scale, error * scale))
    return total


class _Shares:
    """The table of each trial at each entry's place."""

    def __init__(self, table: Tensor, rows: Tensor, place: Tensor) -> None:
        low = place.detach().floor().long().clamp(0, CELLS - 2)
        self.table, self.index, self.weight = table, rows * CELLS + low, place - low

    def __call__(self, kind: int) -> Tensor:
        """Return pi of a kind, between the cells as a line."""
        flat = self.table[:, kind].reshape(-1)
        below = flat[self.index]
        return below + (flat[self.index + 1] - below) * self.weight


def _of_zeros(
    gradient: Tensor, sent: Tensor, law: EntryLaw, share: Callable[[int], Tensor], rms: Tensor, width: Tensor
) -> Tensor:
    # no gradient is exactly zero but where nothing reaches it: what is zero says that it was set to zero
    return (share(ZERO) + FAR * _normal(gradient, width) * width).clamp(min=TINY).log()


def _of_others(
    gradient: Tensor, sent: Tensor, law: EntryLaw, share: Callable[[int], Tensor], rms: Tensor, width: Tensor
) -> Tensor:
    noise, alone = law.noise * law.size, law.alone * law.size
    densities: dict[int, Callable[[], Tensor]] = {
        KEPT: lambda: _normal(sent - gradient, width),
        TURNED: lambda: _normal(sent + gradient, width),
        SCALED: lambda: _normal(sent - law.factor * gradient, width),
        NOISY: lambda: _normal(sent - gradient, (noise**2 + width**2).sqrt()),
        ALONE: lambda: _normal(sent, (alone**2 + width**2).sqrt()),
    }
    # what hardly ever happens costs as much as the rest, and FAR stands for it
    parts = [share(k) * density() for k, density in densities.items() if float(law.shares[k].max()) > SELDOM]
    parts.append(FAR * _normal(sent - gradient, rms))
    return torch.stack(parts).sum(0).clamp(min=TINY).log()


def _value(gradients: Sequence[Tensor], observed: Sequence[Tensor], law: EntryLaws, error: float) -> Tensor:
    total = observed[0].new_zeros(len(observed[0]))
    for gradient, sent, own in zip(gradients, observed, law.tensors, strict=True):
        flat = gradient.flatten(1)
        unit = _own_unit(flat, own.unit, own.size)
        total = total - _log_density(flat, sent.flatten(1), own, error, unit)
    return total
