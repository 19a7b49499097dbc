"""One client at one moment: what a guest's defense is fed, and what would be sent without it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

Gradients = Mapping[str, Tensor]


@dataclass(frozen=True)
class Situation:
    """One client at one moment, and what its guest is fed.

    Attributes:
        gradients: of each local step, by name; nothing of the guest's may depend on more than the context tells.
            Where a guest changes the network they are those of its mean state, without terms of its own. Those after
            the first were taken where a client without a defense stood by then.
        weights: that the server sent.
        batch: ``images`` [N, C, H, W] and ``labels`` [N].
        build: gives the network.
        rate: nominal learning rate.
        seed: of the run.
        client: its number.
        round: from 0.
        draw: repetition of the client's randomness.
        own: whether the gradients are those of its batch; others stand for whatever the client would compute.
        per_step: samples of a local step, in their order; 0 where each step takes the whole batch.
    """

    gradients: Sequence[Gradients]
    weights: Mapping[str, Tensor]
    batch: Mapping[str, Tensor]
    build: Callable[[], nn.Sequential]
    rate: float = 1.0
    seed: int = 0
    client: int = 0
    round: int = 0
    draw: int = 0
    own: bool = True
    per_step: int = 0

    def fed(self, *gradients: Gradients) -> "Situation":
        """Return the same moment with other gradients."""
        return replace(self, gradients=gradients, own=False)

    def batch_of(self, step: int) -> Mapping[str, Tensor]:
        """Return the samples of a local step; steps beyond those of the round begin again."""
        if not self.per_step:
            return self.batch
        first = step * self.per_step % len(self.batch["labels"])
        return {name: value[first : first + self.per_step] for name, value in self.batch.items()}

    def walked(self) -> dict[str, Tensor]:
        """Return how far the steps lead without a defense."""
        total = {name: torch.zeros_like(value) for name, value in self.weights.items()}
        for gradients in self.gradients:
            total = {name: value - self.rate * gradients[name] for name, value in total.items()}
        return total

    def plain(self) -> dict[str, Tensor]:
        """Return the update without a defense, over minus the sum of the rates: of one step, its gradient."""
        nominal = self.rate * len(self.gradients)
        return {name: value / -nominal for name, value in self.walked().items()}


def moved(weights: Mapping[str, Tensor], total: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return where a client stands that has gone so far."""
    return {name: value + total[name] for name, value in weights.items()}
