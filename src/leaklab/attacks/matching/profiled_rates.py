"""Unknown local rates without a search: the best ones for given gradients are a small least squares problem.

A delta is -sum_t eta_t g_t, where the gradient g_t depends on the rates of the steps before it. Taken at the weights
that the nominal rates lead to, the gradients do not depend on the unknown rates, the delta is linear in these, and the
best non-negative ones follow exactly. This holds for one step, for steps whose gradients do not meet, and up to the
square of the drift (rate times change of the gradient) for anything else: for small rates, that is. The rates
themselves are then hardly told apart, as the gradients are nearly parallel; the loss does not mind.

Source: LRP paper, eq. (10); the attacker is ours (variable projection with the linearised model).
"""

from collections.abc import Sequence
from itertools import combinations

import torch
from torch import Tensor, nn

from leaklab.attacks.least_squares import least_squares
from leaklab.attacks.matching.delta import DeltaMatching, Samples, matched
from leaklab.attacks.matching.distances import by_trial, squared_l2
from leaklab.attacks.matching.steps import PLAIN_STEPS, LocalSteps, gradients_at
from leaklab.records.errors import UserError

MOST_STEPS = 8
"""All 2^E sets of steps are tried."""


class ProfiledRates(DeltaMatching):
    """min over rates >= 0 of the squared distance of the deltas in units of a gradient, for unknown images.

    The derivative is that for fixed rates: at the best ones the loss does not change with them.

    Args:
        network: the broadcast weights, in evaluation state; no parameter asks for a gradient.
        observed: deltas, one [T, ...] per parameter in the network's order.
        samples: see ``Samples``.
        rates: [E] nominal rates, at most ``MOST_STEPS`` of them.
        steps: batch order; plain gradient descent only.

    Raises:
        UserError: as ``DeltaMatching``, too many steps, or momentum or decay.
    """

    def __init__(
        self,
        network: nn.Sequential,
        observed: Sequence[Tensor],
        samples: Samples,
        rates: Tensor,
        steps: LocalSteps = PLAIN_STEPS,
    ) -> None:
        super().__init__(network, observed, samples, rates, squared_l2, steps)
        if len(rates) > MOST_STEPS or steps.momentum or steps.weight_decay:
            raise UserError(f"profiled rates take at most {MOST_STEPS} plain steps: choose joint rates instead")

    def __call__(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the matching loss [S] at ``points`` [S, n] and its derivative [S, n]."""
        points = points.detach().requires_grad_()
        images, targets, others = self.samples.unpack(points, rows)
        observed = [value[rows] for value in self._observed]
        path = self._path(images, targets, self.local_rates(others))
        with torch.no_grad():
            directions = torch.stack([_flat(gradients) for gradients in path], 2)
            shares = best_shares(directions, _flat(observed))
        sums = [
            sum((by_trial(share, g) * g for share, g in zip(shares.unbind(1), column, strict=True)), torch.zeros(()))
            for column in zip(*path, strict=True)
        ]
        return matched(squared_l2, sums, observed, points)

    def _path(self, images: Tensor, targets: Tensor, rates: Tensor) -> list[list[Tensor]]:
        """Return the gradients of every step at the weights that the nominal rates lead to."""
        current = {n: p.detach().expand(len(images), *p.shape) for n, p in self.network.named_parameters()}
        path = []
        for step, rate in enumerate(rates.unbind(1)):
            chosen = slice(None) if self.steps.order is None else self.steps.order[step]
            gradients = gradients_at(self.network, current, images[:, chosen], targets[:, chosen])
            current = {name: value - by_trial(rate, value) * gradients[name] for name, value in current.items()}
            path.append(list(gradients.values()))
        return path


def best_shares(directions: Tensor, target: Tensor) -> Tensor:
    """Return the x >= 0 that minimises ||directions x - target||^2 of each trial: [S, E].

    Exact: the best x has its positive entries in some set of columns, for which it is the ordinary least squares
    solution, so all sets are solved and the best feasible one is taken.

    Args:
        directions: [S, P, E] with P >= E.
        target: [S, P].
    """
    basis, triangle = torch.linalg.qr(directions)
    wanted = (basis.transpose(1, 2) @ target[:, :, None]).squeeze(2)
    best = torch.zeros_like(wanted)
    smallest = (wanted**2).sum(1)
    columns = range(directions.shape[2])
    for size in range(1, len(columns) + 1):
        for chosen in combinations(columns, size):
            found = least_squares(triangle[:, :, list(chosen)], wanted[:, :, None]).squeeze(2)
            shares = torch.zeros_like(wanted)
            shares[:, list(chosen)] = found
            residual = (((triangle @ shares[:, :, None]).squeeze(2) - wanted) ** 2).sum(1)
            better = (found >= 0).all(1) & (residual < smallest)
            best = torch.where(better[:, None], shares, best)
            smallest = torch.where(better, residual, smallest)
    return best


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([value.flatten(1) for value in tensors], 1)
