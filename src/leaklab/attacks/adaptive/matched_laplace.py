"""Matched Laplace: the likelihood of an update under the defense's own Laplace noise.

With N draws of Laplace noise of scale b averaged (the steps of all rounds), an entry of the observation is o = g + n,
and z = N |o - g| / b has the density of a sum of N such draws, a finite sum for every N::

    p(z) ~ exp(-z) sum over k < N of c_k z^(N - 1 - k),    c_k = (N - 1 + k)! / (k! (N - 1 - k)! 2^k)

For N = 1 the loss is the L1 distance over b. At an error e the kink of |o - g| is rounded off by a hyperbola of that
size.

Source: the density of such sums is the variance-gamma law's, "The Laplace Distribution and Generalizations" (Kotz,
Kozubowski, Podgorski), section 2.3; the defense is the OUTPOST paper's "DP"; the attacker is ours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import factorial
from typing import ClassVar

import torch
from torch import Tensor

from leaklab.attacks.adaptive.base import Transform
from leaklab.attacks.adaptive.lawful import Lawful
from leaklab.attacks.likelihood import ALIKE, Differentiated, OfTheMean, OnlyWidened, mean_square
from leaklab.attacks.matching import Distance
from leaklab.defenses.noise import LaplaceNoise
from leaklab.observations.declared import LAW_OF_DEFENSE, PRESCRIBED_STEPS, Requirements
from leaklab.records.errors import UserError


@dataclass(frozen=True)
class LaplaceLaw(OnlyWidened):
    """The mean of independent draws of Laplace noise; a ``likelihood.Likelihood``.

    Attributes:
        scale: b of one draw; positive.
        draws: N.
    """

    scale: float
    draws: int = 1

    def widened(self, error: float, weights: Mapping[str, Tensor]) -> Distance:
        """Return the negative log-likelihood at an error; see ``likelihood.Likelihood``."""
        return Differentiated(partial(_negative_log_likelihood, law=self, error=error))

    def of_steps(self, error: float, weights: Mapping[str, Tensor], shares: Sequence[float]) -> Distance:
        """Return the same of the mean of steps; see ``likelihood.StepLikelihood``.

        Raises:
            UserError: steps of different weight, whose noise has another law.
        """
        if len(shares) != self.draws or max(shares) - min(shares) > ALIKE:
            raise UserError("transform 'matched-laplace' knows the mean of steps at one rate: leave rate_schedule out")
        return OfTheMean(self.widened(error, weights), tuple(shares))

    def moved(self, gradient: Tensor) -> Tensor:
        """Return the gradient: the mean of the noise is zero."""
        return gradient


def _negative_log_likelihood(
    gradients: Sequence[Tensor], observed: Sequence[Tensor], law: LaplaceLaw, error: float
) -> Tensor:
    pairs = zip(gradients, observed, strict=True)
    return torch.stack([_of_tensor(g.flatten(1), o.flatten(1), law, error) for g, o in pairs]).sum(0)


def _of_tensor(gradient: Tensor, observed: Tensor, law: LaplaceLaw, error: float) -> Tensor:
    """Return the value [T] of one tensor [T, n]."""
    floor = error**2 * mean_square(observed).clamp(min=torch.finfo(observed.dtype).tiny)
    sizes = law.draws / law.scale * (((observed - gradient) ** 2 + floor).sqrt() - floor.sqrt())
    return (sizes - torch.log(_polynomial(sizes, law.draws))).sum(1)


def _polynomial(sizes: Tensor, draws: int) -> Tensor:
    """Return the sum over k of c_k z^(N - 1 - k) over its value at 0, by Horner's rule."""
    last = _coefficient(draws - 1, draws)
    total = torch.full_like(sizes, _coefficient(0, draws) / last)
    for k in range(1, draws):
        total = total * sizes + _coefficient(k, draws) / last
    return total


def _coefficient(k: int, draws: int) -> float:
    return float(factorial(draws - 1 + k)) / (factorial(k) * factorial(draws - 1 - k)) / 2.0**k


@dataclass(frozen=True)
class MatchedLaplace(Lawful):
    """Match by the likelihood of Laplace noise; see ``Lawful``."""

    name: ClassVar[str] = "matched-laplace"
    requirements: ClassVar[Requirements] = Requirements(
        facts=LAW_OF_DEFENSE, facts_for_delta=PRESCRIBED_STEPS, fits=("laplace-noise",)
    )

    def law(self, defense: LaplaceNoise, steps: int, rounds: int) -> LaplaceLaw:
        """Return the law of the mean noise."""
        return LaplaceLaw(defense.scale, steps * rounds)


PLUGIN: type[Transform] = MatchedLaplace
