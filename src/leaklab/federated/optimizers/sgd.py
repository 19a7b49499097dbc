"""Stochastic gradient descent with momentum: v <- momentum v + (g + decay W), W <- W - rate v.

As in ``torch.optim.SGD``; under a perturbed rate the rate multiplies the buffer (LRP, section 5.2).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from leaklab.federated.optimizers.base import Weights, per_model
from leaklab.records.bounds import PartShare
from leaklab.records.errors import UserError


@dataclass(frozen=True)
class Sgd:
    """Gradient descent.

    Attributes:
        momentum: in [0, 1).
    """

    momentum: PartShare = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.momentum < 1:
            raise UserError(f"optimizer sgd: momentum must be at least 0 and below 1, not {self.momentum}")

    @property
    def plain(self) -> bool:
        """Whether there is no momentum."""
        return self.momentum == 0

    def start(self, weights: Weights) -> dict[str, Tensor]:
        """Return the buffers v by name, zero; none without momentum."""
        return {} if self.plain else {name: torch.zeros_like(value) for name, value in weights.items()}

    @torch.no_grad()
    def step(
        self, state: dict[str, Tensor], weights: Weights, gradients: Weights, rates: Tensor, weight_decay: float
    ) -> None:
        """Do one step in place; see ``base.Optimizer``."""
        # large temporaries cost more than the arithmetic: everything happens in the weights and buffers
        for name, weight in weights.items():
            rate = per_model(rates, weight)
            if self.plain:
                direction = gradients[name]
                if weight_decay:
                    weight.mul_(1 - weight_decay * rate)
            else:
                direction = state[name].mul_(self.momentum).add_(gradients[name]).add_(weight, alpha=weight_decay)
            weight.addcmul_(direction, rate, value=-1)


PLUGIN = Sgd
