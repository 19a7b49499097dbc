"""The law of a defense that changes runs of entries: neighbours share their fate, and which runs is drawn anew.

Laid end to end, the entries are cut into slices; in every step some of these, drawn at random, are shortened to almost
nothing and get N(0, sigma^2), and the others are exact. Where the cuts are depends on a sensitivity that the server
does not know. But slices are long runs, so that neighbours share their fate: blocks of BLOCK entries of a tensor, but
for the few that a cut goes through. For N steps (of all rounds) of which a slice was perturbed in M, an entry is

    o = (1 - M / N) g + n,    n ~ N(0, M sigma^2 / N^2)

or g + n where nothing is shortened. The likelihood of a block is the mixture over M, which is binomial.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import comb, log

import torch
from torch import Tensor
from torch.nn import functional as F

from leaklab.attacks.learnt.entries import EXACT
from leaklab.attacks.learnt.linear import TINY, Rehearsals
from leaklab.attacks.matching.distances import Differentiated, Distance, OnlyWidened

BLOCK = 64


@dataclass(frozen=True)
class SlicedLaw(OnlyWidened):
    """How GradDefense makes an observed update of a gradient; a ``distances.Likelihood``.

    Attributes:
        noised: share of the slices that one step perturbs, above 0 and below 1.
        sigma: standard deviation of its noise; positive.
        shortened: whether the gradient in these slices is next to nothing, instead of whole.
        steps: N, whose mean was observed.
    """

    noised: float
    sigma: float
    shortened: bool = True
    steps: int = 1

    def widened(self, error: float, weights: Mapping[str, Tensor]) -> Distance:
        """Return the negative log-likelihood at an error; see ``distances.Likelihood``.

        The error is relative to the root mean square of a block here.
        """
        return Differentiated(partial(_negative_log_likelihood, law=self, error=error))

    def of_steps(self, error: float, weights: Mapping[str, Tensor], shares: Sequence[float]) -> Distance:
        """Return the same of steps that each drew their slices; see ``distances.StepLikelihood``."""
        return Differentiated(partial(_of_steps, law=self, error=error, shares=shares))

    def moved(self, gradient: Tensor) -> Tensor:
        """Return the mean over the slices that may have been drawn."""
        return (1 - self.noised) * gradient if self.shortened else gradient


def _negative_log_likelihood(
    gradients: Sequence[Tensor], observed: Sequence[Tensor], law: SlicedLaw, error: float
) -> Tensor:
    pairs = zip(gradients, observed, strict=True)
    return torch.stack([_of_tensor(g.flatten(1), o.flatten(1), law, error) for g, o in pairs]).sum(0)


def _of_tensor(gradient: Tensor, observed: Tensor, law: SlicedLaw, error: float) -> Tensor:
    """Return the value [T] of one tensor [T, n], up to a constant that depends on no gradient."""
    inside = _blocks(torch.ones_like(observed))
    gradient, observed = _blocks(gradient), _blocks(observed)
    floor = _floor(observed, inside, error)
    values = []
    for perturbed in range(law.steps + 1):
        left = 1 - perturbed / law.steps if law.shortened else 1.0
        variance = perturbed * law.sigma**2 / law.steps**2 + floor
        density = -((observed - left * gradient) ** 2) / (2 * variance) - torch.log(variance / floor) / 2
        chance = comb(law.steps, perturbed) * law.noised**perturbed * (1 - law.noised) ** (law.steps - perturbed)
        values.append(log(chance) + (inside * density).sum(2))
    return -torch.stack(values).logsumexp(0).sum(1)


def _of_steps(
    gradients: Sequence[Tensor], observed: Sequence[Tensor], law: SlicedLaw, error: float, shares: Sequence[float]
) -> Tensor:
    """Return the value [T] for the gradients of all steps, [T, E, ...] per parameter."""
    pairs = zip(gradients, observed, strict=True)
    return torch.stack([_steps_of_tensor(g.flatten(2), o.flatten(1), law, error, shares) for g, o in pairs]).sum(0)


def _steps_of_tensor(
    gradient: Tensor, observed: Tensor, law: SlicedLaw, error: float, shares: Sequence[float]
) -> Tensor:
    """Return the value [T] of one tensor, [T, E, n], up to a constant that depends on no gradient."""
    inside = _blocks(torch.ones_like(observed))
    steps, observed = [_blocks(one) for one in gradient.unbind(1)], _blocks(observed)
    floor = _floor(observed, inside, error)
    values = []
    for pattern in product((False, True), repeat=len(shares)):
        mean, variance, chance = torch.zeros_like(observed), floor, 0.0
        for perturbed, one, share in zip(pattern, steps, shares, strict=True):
            mean = mean if perturbed and law.shortened else mean + share * one
            variance = variance + share**2 * law.sigma**2 if perturbed else variance
            chance += log(law.noised if perturbed else 1 - law.noised)
        density = -((observed - mean) ** 2) / (2 * variance) - torch.log(variance / floor) / 2
        values.append(chance + (inside * density).sum(2))
    return -torch.stack(values).logsumexp(0).sum(1)


def _floor(observed: Tensor, inside: Tensor, error: float) -> Tensor:
    """Return the variance of a block's error, [T, blocks, 1]."""
    floor = error**2 * ((observed**2).sum(2, keepdim=True) / inside.sum(2, keepdim=True))
    return floor.clamp(min=torch.finfo(observed.dtype).tiny)


def _blocks(entries: Tensor) -> Tensor:
    """Return [T, n] as [T, blocks, BLOCK], the last block filled up with zeros."""
    padded = F.pad(entries, (0, -entries.shape[1] % BLOCK))
    return padded.reshape(len(entries), -1, BLOCK)


# Learnt from rehearsals.

UNANIMOUS, FEW = 0.9, 0.02
"""Share of blocks in which all entries are kept or none, and of blocks of one kind, from which on it is such a law."""


def learnt(rehearsals: Rehearsals) -> SlicedLaw | None:
    """Return the law of runs of entries that are changed together; None where blocks do not share their fate.

    It is ``SlicedLaw``: how many blocks are changed, the deviation of the noise in them, and whether the gradient is
    still there under it. Of blocks of which hardly any is kept, or changed, there is none.
    """
    pairs = list(zip(rehearsals.gradients, rehearsals.sent, strict=True))
    kept = [(o - g).abs() <= EXACT * g.abs() for g, o in pairs]
    shares = torch.cat([_whole_blocks(mask.double()).mean(2).flatten() for mask in kept if mask.shape[1] >= BLOCK])
    if not len(shares) or float(((shares == 0) | (shares == 1)).double().mean()) < UNANIMOUS:
        return None
    changed = float((shares < 1).double().mean())
    if not FEW <= changed <= 1 - FEW:
        return None
    gradient, sent = (
        torch.cat([value[~mask] for value, mask in zip(values, kept, strict=True)])
        for values in zip(*pairs, strict=True)
    )
    there = float((gradient * sent).sum()) > 0.5 * float((gradient**2).sum())
    sigma = float((sent - gradient if there else sent).pow(2).mean().sqrt())
    return SlicedLaw(changed, max(sigma, TINY**0.5), not there)


def _whole_blocks(value: Tensor) -> Tensor:
    """Return [R, n] as whole blocks, [R, n // BLOCK, BLOCK]."""
    whole = value.shape[1] // BLOCK * BLOCK
    return value[:, :whole].reshape(len(value), -1, BLOCK)
