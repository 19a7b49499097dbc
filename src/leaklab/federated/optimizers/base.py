"""What every local optimizer offers: one step of M clients at once, each with its own rate."""

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from torch import Tensor

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
