"""A network seen through an algorithm's phase: weights and gradients of the values that move, not of the network."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.func import vjp, vmap

from leaklab.federated.algorithms.base import Algorithm, Phase, Tensors, overrides
from leaklab.federated.batches import Batch, DropoutSite
from leaklab.federated.network import TrainableNetwork
from leaklab.federated.optimizers.base import Weights

SMALLEST_NORM = 1e-6
"""Added to a norm before dividing by it, as in ``torch.nn.utils.clip_grad_norm_``."""


class Seen:
    """A ``TrainableNetwork`` of the moving values of M clients.

    Attributes:
        dropouts: those of the network.
        buffers: running statistics among the moving values.
    """

    def __init__(
        self, form: TrainableNetwork, algorithm: Algorithm, phase: Phase, moving: Tensors, resting: Tensors
    ) -> None:
        """See ``form`` through ``algorithm``; ``moving`` and ``resting`` are the values by name, [M, ...]."""
        self._form, self._algorithm, self._phase = form, algorithm, phase
        # a network in training state writes its running statistics in place, also those that stand still
        self._resting = {name: value.clone() if name in form.buffers else value for name, value in resting.items()}
        self._generated = overrides(algorithm, "network")
        self.dropouts: Mapping[str, DropoutSite] = form.dropouts
        self.buffers = tuple(name for name in form.buffers if name in moving)

    def whole(self, moving: Weights) -> dict[str, Tensor]:
        """Return the network's weights and running statistics, [M, ...]."""
        values = {**self._resting, **moving}
        return dict(vmap(self._algorithm.network)(values)) if self._generated else values

    @property
    def form(self) -> TrainableNetwork:
        """The network itself."""
        return self._form

    def logits(self, weights: Weights, images: Tensor, masks: Mapping[str, Tensor]) -> Tensor:
        """Return the outputs [M, classes, B]; see ``TrainableNetwork.logits``."""
        return self._form.logits(self.whole(weights), images, masks)

    def gradients(self, weights: Weights, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the losses [M] and the gradients of the moving values, their norms cut at the phase's bound."""
        loss, found = self._generated_gradients(weights, batch) if self._generated else self._own(weights, batch)
        return loss, found if self._phase.bound is None else self._cut(found, self._phase.bound)

    def _own(self, weights: Weights, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        loss, gradients = self._form.gradients(self.whole(weights), batch)
        return loss, {name: gradients[name] for name in weights if name not in self.buffers}

    def _generated_gradients(self, weights: Weights, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        parameters = {name: value for name, value in weights.items() if name not in self.buffers}
        statistics = {name: weights[name] for name in self.buffers}
        network, pull = vjp(lambda own: self.whole({**own, **statistics}), parameters)[:2]
        state = {name: value.detach().clone() for name, value in network.items()}
        loss, gradients = self._form.gradients(state, batch)
        for name, value in statistics.items():
            value.copy_(state[name])  # the network wrote them into its own copy
        at_network = {name: gradients.get(name, torch.zeros_like(value)) for name, value in network.items()}
        found: dict[str, Tensor] = pull(at_network)[0]
        return loss, found

    def _cut(self, gradients: dict[str, Tensor], bound: float) -> dict[str, Tensor]:
        groups = {name: self._phase.groups(name) for name in gradients}
        factors = {}
        for group in sorted(set(groups.values())):
            squares = [
                value.reshape(len(value), -1).square().sum(1)
                for name, value in gradients.items()
                if groups[name] == group
            ]
            norm = torch.stack(squares).sum(0).sqrt()
            factors[group] = (bound / (norm + SMALLEST_NORM)).clamp_max(1)
        return {
            name: value * factors[groups[name]].view(-1, *[1] * (value.dim() - 1)) for name, value in gradients.items()
        }
