"""Likelihoods that a defense leaves behind, which a search narrows down from wide to exact.

Where a defense is a random law, its likelihood is known to the last digit, and often too narrow to descend into: what
it leaves exact has no width at all. So it is asked for at an error e: as if every entry of the dummy gradient were
known only up to a normal error of deviation e times the root mean square of its tensor. For e -> 0 it is the exact one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from leaklab.attacks.matching import Distance
from leaklab.records.errors import UserError

NegativeLogLikelihood = Callable[[Sequence[Tensor], Sequence[Tensor]], Tensor]
"""Maps gradients and observed gradients ([T, ...] per parameter) to the value [T], differentiable in the former."""

ALIKE = 1e-9
"""Difference between the shares of two steps that is rounding."""


@runtime_checkable
class Likelihood(Protocol):
    """What a transform gives as its distance if the law of the defense has to be narrowed down."""

    def widened(self, error: float, weights: Mapping[str, Tensor]) -> Distance:
        """Return the negative log-likelihood, up to a constant, at an error.

        Args:
            error: e, positive.
            weights: broadcast parameters by name, in the order of the gradients.
        """
        ...


@dataclass(frozen=True)
class Differentiated:
    """A negative log-likelihood as a ``matching.Distance``; its derivative is automatic."""

    value: NegativeLogLikelihood

    def __call__(self, gradients: Sequence[Tensor], observed: Sequence[Tensor]) -> tuple[Tensor, list[Tensor], Tensor]:
        """Return the value [T], its derivative for each gradient tensor, and ones [T]."""
        with torch.enable_grad():
            leaves = [gradient.detach().requires_grad_() for gradient in gradients]
            value = self.value(leaves, observed)
            slopes = torch.autograd.grad(value.sum(), leaves, allow_unused=True, materialize_grads=True)
        return value.detach(), list(slopes), torch.ones_like(value.detach())


@runtime_checkable
class StepLikelihood(Protocol):
    """A law that also tells steps apart whose gradients differ, and whose mean was observed."""

    def of_steps(self, error: float, weights: Mapping[str, Tensor], shares: Sequence[float]) -> Distance:
        """Return the negative log-likelihood, up to a constant, of gradients [T, E, ...] per parameter.

        Args:
            error: e, positive.
            weights: broadcast parameters by name, in the order of the gradients.
            shares: weight of each of the E steps in the mean.

        Raises:
            UserError: the law of so many steps, or of such shares, is not known.
        """
        ...

    def moved(self, gradient: Tensor) -> Tensor:
        """Return what a step is expected to move by that has this gradient [T, ...] of a parameter."""
        ...


@dataclass(frozen=True)
class OfTheMean:
    """A distance that speaks of the mean of the steps alone, as one of their gradients.

    Attributes:
        distance: of the mean.
        shares: weight of each step.
    """

    distance: Distance
    shares: tuple[float, ...]

    def __call__(self, gradients: Sequence[Tensor], observed: Sequence[Tensor]) -> tuple[Tensor, list[Tensor], Tensor]:
        """Return the value [T], its derivative for the gradients [T, E, ...] but for a factor, and that factor [T]."""
        weights = [torch.tensor(self.shares).to(g).view(-1, *[1] * (g.dim() - 2)) for g in gradients]
        means = [(weight * g).sum(1) for weight, g in zip(weights, gradients, strict=True)]
        value, residuals, factor = self.distance(means, observed)
        return value, [weight * r[:, None] for weight, r in zip(weights, residuals, strict=True)], factor


@dataclass(frozen=True)
class OnlyWidened:
    """Base of likelihoods that are no distance by themselves: most attacks take distances."""

    def __call__(self, gradients: Sequence[Tensor], observed: Sequence[Tensor]) -> tuple[Tensor, list[Tensor], Tensor]:
        """Refuse.

        Raises:
            UserError: always.
        """
        raise UserError("this transform's likelihood has to be narrowed in stages: choose attack annealed-likelihood")


def mean_square(observed: Tensor) -> Tensor:
    """Return the mean square of a tensor [T, n] of each trial: [T, 1]."""
    return (observed**2).mean(1, keepdim=True)
