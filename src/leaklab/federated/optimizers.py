"""Adam with L2 in the gradient, as ``torch.optim.Adam`` (Kingma and Ba, 2015, algorithm 1). LRP table 5."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from leaklab.records.bounds import PartShare, Positive
from leaklab.records.errors import UserError

# What every local optimizer offers: one step of M clients at once, each with its own rate.

Weights = Mapping[str, Tensor]


class Optimizer(Protocol):
    """A local optimizer. Its dataclass fields are its settings; its state is made anew in every round."""

    @property
    def plain(self) -> bool:
        """Whether a step is W <- W - rate (g + decay W) and nothing else, so that engines may fold it into others."""
        ...

    def start(self, weights: Weights) -> Any:
        """Return the state before the first step, for parameters [M, ...]."""
        ...

    def step(self, state: Any, weights: Weights, gradients: Weights, rates: Tensor, weight_decay: float) -> None:
        """Change ``weights`` and ``state`` in place.

        Args:
            state: what ``start`` returned.
            weights: parameters by name, [M, ...].
            gradients: by the same names.
            rates: learning rate of every model in this step, [M], of the parameters' dtype and device.
            weight_decay: its product with the weights is added to the gradient.
        """
        ...


def leaves_of(weights: Weights, wanted: Collection[str] | None) -> dict[str, Tensor]:
    """Return the ``wanted`` weights (None: all) as leaves of a new graph."""
    return {n: value.detach().requires_grad_() for n, value in weights.items() if wanted is None or n in wanted}


def per_model(rates: Tensor, like: Tensor) -> Tensor:
    """Return ``rates`` [M] shaped to multiply ``like`` [M, ...]."""
    return rates.view(-1, *[1] * (like.dim() - 1))


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


# Stochastic gradient descent with momentum: v <- momentum v + (g + decay W), W <- W - rate v.


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


PLUGINS = {
    "adam": Adam,
    "sgd": Sgd,
}
