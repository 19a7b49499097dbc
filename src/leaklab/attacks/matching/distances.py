"""Matching: how far the gradients of the dummy data are from the observed ones, and the derivative of that.

A distance returns its derivative by hand: with the residual at hand it is the residual times a number, so the search
needs one backward pass through the network only and no graph over the weights.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from leaklab.records.errors import UserError

Distance = Callable[[Sequence[Tensor], Sequence[Tensor]], tuple[Tensor, list[Tensor], Tensor]]
"""Maps gradients and observed gradients ([T, ...] per parameter) to the value [T], residuals, and a factor [T];
the derivative of the value for a gradient tensor is factor * residual. One that is more than a function says what else
holds of it: ``scale_free`` and ``log_likelihood``, see below."""


@dataclass(frozen=True)
class ScaleFree:
    """A distance for updates whose scale is not that of the gradient.

    Attributes:
        value: the distance.
    """

    scale_free: ClassVar[bool] = True

    value: Distance

    def __call__(self, gradients: Sequence[Tensor], observed: Sequence[Tensor]) -> tuple[Tensor, list[Tensor], Tensor]:
        """Return the distance; see ``Distance``."""
        return self.value(gradients, observed)


def is_scale_free(distance: Distance | None) -> bool:
    """Tell whether a distance says that it is for updates whose scale is not that of the gradient."""
    return bool(getattr(distance, "scale_free", False))


def is_log_likelihood(distance: Distance) -> bool:
    """Tell whether a distance says that its value is a negative log-likelihood up to a constant, as it is."""
    return bool(getattr(distance, "log_likelihood", False))


PROFILED_SIZE = 1e3
"""c of ``profiled_scale``. The tolerances of L-BFGS are absolute: a loss of size 1 stalls far from the solution, long
before one of the size of ||g||^2 (1e2 to 1e3 on the networks that these attacks are shown on)."""


def squared_l2(gradients: Sequence[Tensor], observed: Sequence[Tensor]) -> tuple[Tensor, list[Tensor], Tensor]:
    """Return ||g' - o||^2, summed over all tensors without weights (DLG, eq. 3; no normalisation)."""
    residuals = [gradient - target for gradient, target in zip(gradients, observed, strict=True)]
    value = squared_norm(residuals)
    return value, residuals, torch.full_like(value, 2.0)


@ScaleFree
def profiled_scale(gradients: Sequence[Tensor], observed: Sequence[Tensor]) -> tuple[Tensor, list[Tensor], Tensor]:
    """Return c min over s of ||o - s g'||^2 / ||o||^2 = c (1 - cos^2(o, g')), which ignores any factor on o.

    It is computed from the residual at the best s, not as 1 - cos^2: near a match the latter is a difference of ones
    and stalls. At the best s the derivative with respect to s vanishes, so s counts as a constant.
    """
    scale = profiled_factor(gradients, observed)
    norm = squared_norm(observed) / PROFILED_SIZE
    residuals = [by_trial(scale, g) * g - o for g, o in zip(gradients, observed, strict=True)]
    return squared_norm(residuals) / norm, residuals, 2 * scale / norm


def profiled_factor(gradients: Sequence[Tensor], observed: Sequence[Tensor]) -> Tensor:
    """Return the s [T] that minimises ||o - s g'||^2."""
    pairs = zip(gradients, observed, strict=True)
    product = torch.stack([(g * o).flatten(1).sum(1) for g, o in pairs]).sum(0)
    norm = squared_norm(gradients)
    # no scale improves on a gradient of zero
    return product / norm.clamp(min=torch.finfo(norm.dtype).tiny)


def squared_norm(tensors: Sequence[Tensor]) -> Tensor:
    """Return the squared L2 norm over all tensors [T, ...] of each trial: [T]."""
    # a float32 sum over a tensor of ten million entries is off by 3e-5
    squares = [torch.linalg.vector_norm(value.flatten(1), dim=1, dtype=torch.float64) ** 2 for value in tensors]
    return torch.stack(squares).sum(0).to(tensors[0].dtype)


def clipped(
    gradients: Sequence[Tensor], bound: Tensor
) -> tuple[list[Tensor], Callable[[Sequence[Tensor]], list[Tensor]]]:
    """Return c g with c = min(1, S / ||g||) for each trial, and the product of its transposed derivative with vectors.

    Args:
        gradients: [T, ...] per parameter; one norm over all of them.
        bound: S, [T].

    Returns:
        The clipped gradients, and the map r -> c (r - g <g, r> / ||g||^2), or r -> r for a trial within its bound.
    """
    square = squared_norm(gradients).clamp(min=torch.finfo(bound.dtype).tiny)
    factor = (bound / square.sqrt()).clamp(max=1.0)

    def pull_back(residuals: Sequence[Tensor]) -> list[Tensor]:
        pairs = list(zip(gradients, residuals, strict=True))
        product = torch.stack([(g * r).flatten(1).sum(1) for g, r in pairs]).sum(0)
        # a clipped gradient has lost its length: what points along it changes nothing
        along = torch.where(factor < 1, product / square, 0.0)
        return [_times(factor, r - _times(along, g)) for g, r in pairs]

    return [_times(factor, gradient) for gradient in gradients], pull_back


def by_trial(factor: Tensor, like: Tensor) -> Tensor:
    """Return ``factor`` [T] with as many dimensions as ``like`` [T, ...], so that their product is by trial."""
    return factor.view(-1, *[1] * (like.dim() - 1))


def _times(factor: Tensor, values: Tensor) -> Tensor:
    """Return the values [T, ...] of each trial times its factor [T]."""
    return torch.einsum("t,t...->t...", factor, values)


DISTANCES: dict[str, Distance] = {"squared-l2": squared_l2, "profiled-scale": profiled_scale}


# Likelihoods that a defense leaves behind, which a search narrows down from wide to exact.

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
