"""Surrogate model extension (SME): the direction of an update is matched with one gradient on the way.

The delta of several steps is about minus the gradient at some weights between the first and the last, times an
unknown factor. The attacker sees both ends, searches the place between them, and matches directions: neither rates
nor the number of steps are needed, so nothing that a perturbed rate hides is asked for.

Source: "Surrogate Model Extension (SME): A Fast and Accurate Weight Update Attack on Federated Learning" (2023).
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from leaklab.attacks.delta_matching import Samples, check_observed, matched
from leaklab.attacks.matching import PROFILED_SIZE, profiled_scale
from leaklab.attacks.simulation import gradients_at


class Surrogate:
    """Loss of S trials as a function of their unknowns [S, n]: the images, then one number for the place.

    The number r stands for a = 1 / (1 + exp(-r)) in (0, 1), the surrogate weights are W_0 + a delta, and the loss is
    ``profiled_scale`` of the gradient there against minus the delta, plus penalty * u * (a - 1/2)^2 with u = 1000, the
    ``profiled_scale`` of a zero gradient.

    Args:
        network: the broadcast weights, in evaluation state; no parameter asks for a gradient.
        observed: deltas, one [T, ...] per parameter in the network's order.
        samples: see ``Samples``.
        penalty: keeps the place from wandering where it hardly matters; relative to the loss of a zero gradient.

    Raises:
        UserError: an observation that is not finite or not of this network.
    """

    def __init__(
        self, network: nn.Sequential, observed: Sequence[Tensor], samples: Samples, penalty: float = 1e-3
    ) -> None:
        check_observed(network, observed)
        self.network, self.samples, self.penalty = network, samples, penalty * PROFILED_SIZE
        self._observed = list(observed)

    @property
    def unknowns(self) -> int:
        """Number of unknowns of one trial."""
        return self.samples.pixels + 1

    def place(self, others: Tensor) -> Tensor:
        """Return a [S] for the unknown [S, 1]."""
        return torch.sigmoid(others[:, 0])

    def loss_of_nothing(self) -> Tensor:
        """Return the loss of an all-zero gradient, [T]: what relative losses refer to."""
        return profiled_scale([torch.zeros_like(value) for value in self._observed], self._observed)[0]

    def __call__(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss [S] at ``points`` [S, n] and its derivative [S, n]."""
        points = points.detach().requires_grad_()
        images, targets, others = self.samples.unpack(points, rows)
        place = self.place(others)
        observed = [value[rows] for value in self._observed]
        weights = {
            name: before + place.view(-1, *[1] * before.dim()) * delta
            for (name, before), delta in zip(self.network.named_parameters(), observed, strict=True)
        }
        gradients = gradients_at(self.network, weights, images, targets)
        value, derivative = matched(profiled_scale, [-g for g in gradients.values()], observed, points)
        away = place.detach() - 0.5
        derivative[:, -1] += 2 * self.penalty * away * (0.25 - away**2)
        return value + self.penalty * away**2, derivative
