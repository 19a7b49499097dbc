"""The law of a defense entry by entry: what becomes of an entry depends on its size beside the others of its tensor.

Of each tensor, with x the entry of the gradient in a unit that is the gradient's own (its root mean square, a quantile,
its largest entry) or fixed, what is sent of it is a mixture::

    p(o | g) = sum over k of pi_k(x) p_k(o | g)

of: zero, the entry as it is, with the other sign, times a constant, with normal noise, noise alone, and a level of a
grid. The shares pi_k are a table over x. In a search the law is blurred by an error e of the entry, relative to the
root mean square of its tensor: a threshold becomes a slope, and what is exact gets a width.
"""

from collections.abc import Mapping, Sequence
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
        likelihood: mean logarithm of the density on images that were held out.
    """

    unit: str
    size: float
    shares: Tensor
    factor: float
    noise: float
    alone: float
    likelihood: float = 0.0


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
    found = []
    for unit in UNITS:
        law = _fitted(gradient[rows], sent[rows], unit)
        likelihood = (
            float(_log_density(gradient[~rows], sent[~rows], law, EXACT).mean()) if bool((~rows).any()) else 0.0
        )
        found.append((likelihood, unit))
    best = max(found)[0]
    # the simplest unit that is about as good
    unit = next(unit for likelihood, unit in found if likelihood >= best - 1e-3)
    return _fitted(gradient, sent, unit)


def _fitted(gradient: Tensor, sent: Tensor, unit: str) -> EntryLaw:
    """Return the law of a tensor from [R, n] pairs by expectation and maximisation."""
    size = float((gradient**2).mean().sqrt().clamp(min=TINY))
    cells = _cell(_in_units(gradient, unit, size)).round().long().clamp(0, CELLS - 1)
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


def _in_units(gradient: Tensor, unit: str, size: float) -> Tensor:
    """Return |g| [T, n] in a unit of its own tensor and trial; constant in the unit's derivative."""
    sizes = gradient.detach().abs()
    if unit == "fixed":
        return gradient.abs() / size
    if unit == "rms":
        own = (sizes**2).mean(1, keepdim=True).sqrt()
    elif unit == "max":
        own = sizes.max(1, keepdim=True).values
    else:
        place = int(float(unit) * (sizes.shape[1] - 1))
        own = sizes.kthvalue(place + 1, dim=1, keepdim=True).values
    return gradient.abs() / own.clamp(min=TINY)


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
    places = _edges()
    steps = torch.gradient(places)[0]
    gaps = (places[:, None] - places[None, :]) / width.clamp(min=1e-12)[:, None, None]
    kernel = torch.exp(-(gaps**2) / 2) * steps[None, None, :]
    kernel = kernel / kernel.sum(2, keepdim=True)
    return torch.einsum("kc,tdc->tkd", shares, kernel)


def _log_density(gradient: Tensor, sent: Tensor, law: EntryLaw, error: float) -> Tensor:
    """Return log p(o | g), [T, n], blurred by an error."""
    rms = (sent.detach() ** 2).mean(1, keepdim=True).sqrt().clamp(min=TINY)
    width = error * rms
    units = _in_units(gradient, law.unit, law.size)
    own = (units.detach() / gradient.detach().abs().clamp(min=TINY)).amax(1)  # one over the unit
    table = _blurred(law.shares, width[:, 0] * own)
    place = _cell(units)
    low = place.detach().floor().long().clamp(0, CELLS - 2)
    weight = place - low
    rows = torch.arange(len(gradient))[:, None]

    def share(k: int) -> Tensor:
        return table[rows, k, low] * (1 - weight) + table[rows, k, low + 1] * weight

    zero = sent == 0
    noise, alone = law.noise * law.size, law.alone * law.size
    parts = [
        share(KEPT) * _normal(sent - gradient, width),
        share(NOISY) * _normal(sent - gradient, (noise**2 + width**2).sqrt()),
        share(ALONE) * _normal(sent, (alone**2 + width**2).sqrt()),
        FAR * _normal(sent - gradient, rms),
    ]
    if float(law.shares[TURNED].max()) > 1e-3:
        parts.append(share(TURNED) * _normal(sent + gradient, width))
    if float(law.shares[SCALED].max()) > 1e-3:
        parts.append(share(SCALED) * _normal(sent - law.factor * gradient, width))
    live = torch.stack(parts).sum(0).clamp(min=TINY).log()
    # no gradient is exactly zero but where nothing reaches it: what is zero says that it was set to zero
    none = (share(ZERO) + FAR * _normal(gradient, width) * width).clamp(min=TINY).log()
    return torch.where(zero, none, live)


def _value(gradients: Sequence[Tensor], observed: Sequence[Tensor], law: EntryLaws, error: float) -> Tensor:
    total = observed[0].new_zeros(len(observed[0]))
    for gradient, sent, own in zip(gradients, observed, law.tensors, strict=True):
        total = total - _log_density(gradient.flatten(1), sent.flatten(1), own, error).sum(1)
    return total
