"""The linear law of a defense: the gradient times a factor, plus a multiple of something fixed, plus noise.

Of each tensor t, entry by entry::

    o = s gamma_t g + c u_t + n,    n ~ N(0, alpha_t + beta_t (gamma_t g)^2 + e^2 mean(o_t^2))

s is the same for all tensors, or another one in each, and drawn anew; c is drawn anew; both are profiled out: they are
what explains the update best. e is the error of the search's stage. Everything else is learnt from rehearsals.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from leaklab.attacks.matching.distances import Differentiated, Distance, OnlyWidened
from leaklab.records import tensor_algebra

Scope = Literal["none", "whole", "tensor"]
HALF, QUARTER = 0.5, 0.25
"""A factor, and a fixed part, is believed that leaves at most so much of the residual's energy."""
ALTERNATIONS = 20
ROUNDING = 1e-18
"""Share of the energy of what is sent that a law leaves by rounding alone."""
TINY = 1e-300


@dataclass(frozen=True)
class Rehearsals:
    """Gradients and what was sent of them.

    Attributes:
        gradients: [R, n_t] of each tensor, float64; one gradient's draws are side by side.
        sent: the same of what was sent.
        draws: how many times each gradient was sent.
    """

    gradients: tuple[Tensor, ...]
    sent: tuple[Tensor, ...]
    draws: int

    def half(self, which: int) -> "Rehearsals":
        """Return every other image's rehearsals."""
        count = len(self.gradients[0])
        rows = [row for row in range(count) if row // self.draws % 2 == which]
        return Rehearsals(tuple(g[rows] for g in self.gradients), tuple(o[rows] for o in self.sent), self.draws)


@dataclass(frozen=True)
class LinearLaw(OnlyWidened):
    """The law above; a ``distances.Likelihood``.

    Attributes:
        scope: of the factor s; ``none`` for s = 1.
        gains: gamma of each tensor.
        fixed: u of each tensor, [n_t]; empty for none.
        alpha: variance of the noise in each tensor.
        beta: share of the gradient's square in it.
    """

    scope: Scope
    gains: tuple[float, ...]
    fixed: tuple[Tensor, ...]
    alpha: tuple[float, ...]
    beta: tuple[float, ...]

    def widened(self, error: float, weights: Mapping[str, Tensor]) -> Distance:
        """Return the negative log-likelihood at an error; see ``distances.Likelihood``."""
        return Differentiated(partial(_value, law=self, error=error))


def plain_law(tensors: int) -> LinearLaw:
    """Return the law of no defense, of so many tensors."""
    zeros = (0.0,) * tensors
    return LinearLaw("none", (1.0,) * tensors, (), zeros, zeros)


def learnt(rehearsals: Rehearsals) -> LinearLaw:
    """Return the linear law that explains rehearsals best."""
    scope: Scope = "none"
    energy = sum(float((o**2).sum()) for o in rehearsals.sent)
    gains, left = _gains(rehearsals, scope)
    wider_ones: tuple[Scope, ...] = ("whole", "tensor")
    for wider in wider_ones:
        own, residual = _gains(rehearsals, wider)
        if residual <= HALF * left and left > ROUNDING * energy:
            scope, gains, left = wider, own, residual
    fixed = _fixed(rehearsals, scope, gains)
    residuals, scaled = _residuals(rehearsals, scope, gains, fixed)
    alpha, beta = zip(*(_noise(r, g) for r, g in zip(residuals, scaled, strict=True)), strict=True)
    return LinearLaw(scope, gains, fixed, alpha, beta)


def _gains(rehearsals: Rehearsals, scope: Scope) -> tuple[tuple[float, ...], float]:
    """Return the mean factor of each tensor, and the energy of what is left."""
    pairs = list(zip(rehearsals.gradients, rehearsals.sent, strict=True))
    products = torch.stack([(g * o).sum(1) for g, o in pairs])
    squares = torch.stack([(g * g).sum(1) for g, _ in pairs])
    gains = products.sum(1) / squares.sum(1).clamp(min=TINY)
    if scope == "tensor":
        gains = torch.where(gains == 0, 0.0, 1.0)
        factors = products / squares.clamp(min=TINY)
    elif scope == "whole":
        for _ in range(ALTERNATIONS):  # the ratio of the tensors is fixed, and the factor drawn anew
            drawn = (gains[:, None] * products).sum(0) / (gains[:, None] ** 2 * squares).sum(0).clamp(min=TINY)
            gains = (drawn * products).sum(1) / (drawn**2 * squares).sum(1).clamp(min=TINY)
        factors = drawn[None] * gains[:, None]
    else:
        factors = gains[:, None].expand_as(products)
    left = sum(float(((o - f[:, None] * g) ** 2).sum()) for (g, o), f in zip(pairs, factors, strict=True))
    return tuple(gains.tolist()), left


def _residuals(
    rehearsals: Rehearsals, scope: Scope, gains: Sequence[float], fixed: Sequence[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Return what the law leaves of each rehearsal, and the gradient as it was scaled."""
    scaled = [gain * g for gain, g in zip(gains, rehearsals.gradients, strict=True)]
    weights = [1.0] * len(scaled)
    factors, share = profiled(scaled, rehearsals.sent, fixed, scope, weights)
    scaled = [f[:, None] * g for f, g in zip(factors, scaled, strict=True)]
    parts = fixed or [torch.zeros_like(g[0]) for g in scaled]
    left = [o - g - share[:, None] * u for o, g, u in zip(rehearsals.sent, scaled, parts, strict=True)]
    return left, scaled


def profiled(
    scaled: Sequence[Tensor], sent: Sequence[Tensor], fixed: Sequence[Tensor], scope: Scope, weights: Sequence[float]
) -> tuple[list[Tensor], Tensor]:
    """Return the s [T] of each tensor and the c [T] that leave the least weighted square.

    Args:
        scaled: gamma g of each tensor, [T, n].
        sent: o.
        fixed: u of each tensor, [n]; empty for none.
        scope: of s.
        weights: of each tensor's squares.
    """

    def total(values: list[Tensor]) -> Tensor:
        return torch.stack([w * v for w, v in zip(weights, values, strict=True)])

    gg, go = total([(g * g).sum(1) for g in scaled]), total([(g * o).sum(1) for g, o in zip(scaled, sent, strict=True)])
    ones = torch.ones_like(gg)
    share = torch.zeros_like(gg[0])
    if fixed:
        uo = total([o @ u for o, u in zip(sent, fixed, strict=True)]).sum(0)
        gu = total([g @ u for g, u in zip(scaled, fixed, strict=True)])
        uu = total([(u @ u).expand(len(g)) for u, g in zip(fixed, scaled, strict=True)]).sum(0).clamp(min=TINY)
        if scope == "none":
            return list(ones), (uo - gu.sum(0)) / uu
        sg, so = (gg.sum(0), go.sum(0)) if scope == "whole" else (gg, go)
        crossed = gu.sum(0) if scope == "whole" else gu
        # s eliminated from the normal equations
        inside = (crossed**2 / sg.clamp(min=TINY)), (crossed * so / sg.clamp(min=TINY))
        down, up = inside if scope == "whole" else (inside[0].sum(0), inside[1].sum(0))
        share = (uo - up) / (uu - down).clamp(min=TINY)
        factors = (so - share * crossed) / sg.clamp(min=TINY)
        return list(factors.expand_as(gg)), share
    if scope == "none":
        return list(ones), share
    factors = go.sum(0) / gg.sum(0).clamp(min=TINY) if scope == "whole" else go / gg.clamp(min=TINY)
    return list(factors.expand_as(gg)), share


def _fixed(rehearsals: Rehearsals, scope: Scope, gains: Sequence[float]) -> tuple[Tensor, ...]:
    """Return the direction that all rehearsals share beside the gradient; empty where there is none.

    Half of the images say which it is, and the others whether it holds.
    """
    halves = [rehearsals.half(which) for which in (0, 1)]
    if any(len(half.sent[0]) < 2 for half in halves):
        return ()
    sizes = [o.shape[1] for o in rehearsals.sent]
    left = torch.cat(_residuals(halves[0], scope, gains, ())[0], 1)
    values, vectors = tensor_algebra.eigh(left @ left.T)
    if not float(values[-1]) > 0:
        return ()
    direction = left.T @ vectors[:, -1]
    fixed = tuple((direction / direction.norm()).split(sizes))
    before, after = (
        sum(float((r**2).sum()) for r in _residuals(halves[1], scope, gains, one)[0]) for one in ((), fixed)
    )
    return fixed if after <= QUARTER * before else ()


def _noise(residual: Tensor, scaled: Tensor) -> tuple[float, float]:
    """Return alpha and beta of a tensor: the variance of what is left as a line in the square of the gradient."""
    x, y = (scaled**2).flatten(), (residual**2).flatten()
    alpha = float(y.mean())
    order = x.argsort()
    # by size: the few large squares would have all the say
    low, high = (part.mean() for part in (y[order[: len(order) // 2]], y[order[len(order) // 2 :]]))
    below, above = (part.mean() for part in (x[order[: len(order) // 2]], x[order[len(order) // 2 :]]))
    beta = float((high - low) / (above - below).clamp(min=TINY))
    if beta <= 0 or float(high) <= 1.5 * float(low):
        return alpha, 0.0
    return max(float(low - beta * below), 0.0), beta


def _value(gradients: Sequence[Tensor], observed: Sequence[Tensor], law: LinearLaw, error: float) -> Tensor:
    scaled = [gain * g.flatten(1) for gain, g in zip(law.gains, gradients, strict=True)]
    sent = [o.flatten(1) for o in observed]
    floors = [error**2 * (o**2).mean(1, keepdim=True) + TINY**0.5 for o in sent]
    with torch.no_grad():  # at the best factors the derivative for them vanishes
        weights = [1 / float(a + f.mean()) for a, f in zip(law.alpha, floors, strict=True)]
        factors, share = profiled(scaled, sent, law.fixed, law.scope, weights)
    parts = law.fixed or [torch.zeros_like(g[0]) for g in scaled]
    total = sent[0].new_zeros(len(sent[0]))
    tensors = zip(scaled, sent, parts, factors, floors, law.alpha, law.beta, strict=True)
    for g, o, u, factor, floor, alpha, beta in tensors:
        mean = factor[:, None] * g
        variance = alpha + beta * mean**2 + floor
        left = o - mean - share[:, None] * u
        total = total + (left**2 / (2 * variance) + (variance.log() / 2 if beta else 0.0)).sum(1)
    return total
