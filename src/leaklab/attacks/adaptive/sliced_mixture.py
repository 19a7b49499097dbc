"""Sliced mixture: the likelihood of an update whose slices GradDefense perturbed or left as they are.

Laid end to end, the entries are cut into slices; in every step some of these, drawn at random, are shortened to almost
nothing and get N(0, sigma^2), and the others are exact. Where the cuts are depends on a sensitivity that the server
does not know. But slices are long runs, so that neighbours share their fate: blocks of BLOCK entries of a tensor, but
for the few that a cut goes through. For N steps (of all rounds) of which a slice was perturbed in M, an entry is

    o = (1 - M / N) g + n,    n ~ N(0, M sigma^2 / N^2)

or g + n where nothing is shortened. The likelihood of a block is the mixture over M, which is binomial.

Source: defense, "Protect Privacy from Gradient Leakage Attack in Federated Learning"; the attacker is ours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import comb, log
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from leaklab.attacks.adaptive.base import Transform
from leaklab.attacks.adaptive.laws import Lawful
from leaklab.attacks.matching.distances import Differentiated, Distance, OnlyWidened
from leaklab.defenses.grad_defense import GradDefense
from leaklab.observations.declared import LAW_OF_DEFENSE, PRESCRIBED_STEPS, Requirements

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


@dataclass(frozen=True)
class SlicedMixture(Lawful):
    """Match by the likelihood of an update under GradDefense; see ``Lawful``."""

    name: ClassVar[str] = "sliced-mixture"
    requirements: ClassVar[Requirements] = Requirements(
        facts=LAW_OF_DEFENSE, facts_for_delta=PRESCRIBED_STEPS, fits=("grad-defense",)
    )

    def law(self, defense: GradDefense, steps: int, rounds: int) -> SlicedLaw:
        """Return the law of the mean of all steps."""
        noised = max(1, round(defense.noised * defense.slices)) / defense.slices
        return SlicedLaw(noised, defense.sigma, defense.clip, steps * rounds)


PLUGIN: type[Transform] = SlicedMixture
