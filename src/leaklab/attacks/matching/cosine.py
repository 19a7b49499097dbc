"""The cosine between the dummy data's gradient and the observed one: what is matched is the direction only.

Source: "Inverting Gradients - How easy is it to break privacy in federated learning?", eq. (4) without its prior: one
cosine over all parameters together, not one per layer.

A factor on the observed gradient, like that of a perturbed learning rate, changes nothing here.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from leaklab.attacks.matching.distances import by_trial, squared_norm
from leaklab.attacks.matching.gradients import general_gradients
from leaklab.attacks.matching.inversion import Inversion
from leaklab.attacks.matching.module_gradients import gradient_products, reason_against
from leaklab.records.errors import UserError


def cosine_distance(gradients: Sequence[Tensor], observed: Sequence[Tensor]) -> tuple[Tensor, list[Tensor], Tensor]:
    """Return 1 - cos(g', o) of each trial [T], in [0, 2], as a ``Distance`` for gradients that are formed.

    It is computed as half the squared distance of the unit vectors, so that it goes to 0 without a floor; a gradient of
    zero has no direction and counts as orthogonal, with derivative 0.
    """
    length, unit = _unit(gradients)
    _, wanted = _unit(observed)
    misses = [w - u for u, w in zip(unit, wanted, strict=True)]
    half = squared_norm(misses) / 2
    none = (length == 0) | (squared_norm(wanted) == 0)
    value = torch.where(none, torch.ones_like(half), half)
    # o - cos g' for unit vectors, without the cancellation of its two terms near a match
    residuals = [miss + by_trial(value, u) * u for miss, u in zip(misses, unit, strict=True)]
    factor = torch.where(none, torch.zeros_like(length), -1 / length)
    return value, residuals, factor


class CosineInversion(Inversion):
    """1 - cos(g', o) of S trials over all parameters, as a function of their unknowns; an ``Objective``.

    Deep networks that ``module_gradients`` has formulas for are matched by products of gradients: value and derivative
    then have a floor of a few roundings (about 1e-15 in float64, 1e-6 in float32), below which they are noise.
    Residual networks stay far above it. Sigmoid networks at their default initialisation do not: images that have
    nothing in common differ by 1e-6 there. So plain networks, like all that have no formulas, form their gradients,
    which has no floor and is as fast for them.

    Args:
        network: the victim with its weights set; no parameter asks for a gradient.
        observed: observed gradients up to a positive factor, one [T, ...] per parameter in the network's order.
        shape: (B, C, H, W) of one trial's samples.
        num_classes: K.
        labels: [T, B] fixed labels, or None to search soft labels jointly.

    Raises:
        UserError: an observed gradient is not finite.
    """

    def __init__(
        self,
        network: nn.Sequential,
        observed: list[Tensor],
        shape: tuple[int, ...],
        num_classes: int,
        labels: Tensor | None = None,
    ) -> None:
        length, unit = _unit(observed)
        if not length.isfinite().all():
            raise UserError("an observed gradient is not finite, so it has no direction: capture it again")
        super().__init__(network, unit, shape, num_classes, cosine_distance, labels)
        self._by_products = self._gradients is general_gradients and reason_against(network) is None

    def __call__(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return 1 - cos [S] at ``points`` [S, n] and its derivative [S, n]."""
        if not self._by_products:
            return super().__call__(points, rows)
        points = points.detach().requires_grad_()
        dummy = self.unpack(points, rows)
        inner, norm = gradient_products(self.network, dummy.images, dummy.targets, self._observed(rows))
        # a gradient of zero has no direction: its cosine is 0, and so is the derivative
        some = norm > 0
        length = torch.where(some, norm, torch.ones_like(norm)).sqrt()
        value = 1 - torch.where(some, inner / length, torch.zeros_like(inner))
        (derivative,) = torch.autograd.grad(value.sum(), points)
        return value.detach(), derivative

    def _observed(self, rows: Tensor) -> list[Tensor]:
        # gradients of deep networks are large: all trials in order need no copy
        everyone = rows.tolist() == list(range(len(self.observed[0])))
        return self.observed if everyone else super()._observed(rows)


def _unit(tensors: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Return the length [T] over all tensors [T, ...] of each trial and the tensors divided by it; 0 stays 0."""
    # a sum of ten million float32 squares is off by 1e-5, which would be the floor of the whole objective
    squares = [torch.linalg.vector_norm(value.flatten(1), dim=1, dtype=torch.float64) ** 2 for value in tensors]
    length = torch.stack(squares).sum(0).sqrt().to(tensors[0].dtype)
    divisor = torch.where(length > 0, length, torch.ones_like(length))
    return length, [value / by_trial(divisor, value) for value in tensors]
