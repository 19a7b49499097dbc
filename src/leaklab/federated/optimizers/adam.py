"""Adam with L2 in the gradient, as ``torch.optim.Adam`` (Kingma and Ba, 2015, algorithm 1). LRP table 5."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from leaklab.federated.optimizers.base import Weights, per_model
from leaklab.records.bounds import PartShare, Positive
from leaklab.records.errors import UserError


@dataclass
class Moments:
    """Running means of the gradient and of its square by name, and the number of steps done."""

    first: dict[str, Tensor] = field(default_factory=dict)
    second: dict[str, Tensor] = field(default_factory=dict)
    steps: int = 0


@dataclass(frozen=True)
class Adam:
    """Adaptive moments.

    Attributes:
        beta1: decay of the mean gradient, in [0, 1).
        beta2: decay of the mean squared gradient, in [0, 1).
        epsilon: added to the root of the second moment.
    """

    beta1: PartShare = 0.9
    beta2: PartShare = 0.999
    epsilon: Positive = 1e-8

    def __post_init__(self) -> None:
        if not (0 <= self.beta1 < 1 and 0 <= self.beta2 < 1 and self.epsilon > 0):
            raise UserError("optimizer adam: beta1 and beta2 must be at least 0 and below 1, epsilon above 0")

    @property
    def plain(self) -> bool:
        """Never: every step depends on the moments."""
        return False

    def start(self, weights: Weights) -> Moments:
        """Return zero moments."""
        first, second = ({name: torch.zeros_like(value) for name, value in weights.items()} for _ in range(2))
        return Moments(first, second)

    @torch.no_grad()
    def step(self, state: Moments, weights: Weights, gradients: Weights, rates: Tensor, weight_decay: float) -> None:
        """Do one step in place; see ``base.Optimizer``."""
        state.steps += 1
        unbias1, unbias2 = 1 - self.beta1**state.steps, 1 - self.beta2**state.steps
        for name, weight in weights.items():
            gradient = torch.add(gradients[name], weight, alpha=weight_decay)
            first = state.first[name].lerp_(gradient, 1 - self.beta1)
            second = state.second[name].mul_(self.beta2).addcmul_(gradient, gradient, value=1 - self.beta2)
            scale = second.sqrt().div_(unbias2**0.5).add_(self.epsilon)
            weight.sub_((first / scale).mul_(per_model(rates / unbias1, weight)))


PLUGIN = Adam
