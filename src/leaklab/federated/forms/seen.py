"""A network seen through an algorithm's phase: weights and gradients of the values that move, not of the network."""

from collections.abc import Callable, Collection, Mapping

import torch
from torch import Tensor
from torch.func import vjp

from leaklab.federated.algorithms.base import Phase, Tensors
from leaklab.federated.batches import Batch, DropoutSite
from leaklab.federated.forms.network import TrainableNetwork
from leaklab.federated.optimizers import Weights

SMALLEST_NORM = 1e-6
"""Added to a norm before dividing by it, as in ``torch.nn.utils.clip_grad_norm_``."""


class Seen:
    """A ``TrainableNetwork`` of the moving values of M clients.

    Attributes:
        dropouts: those of the network.
        buffers: running statistics among the moving values.
    """

    def __init__(
        self,
        form: TrainableNetwork,
        phase: Phase,
        moving: Tensors,
        resting: Tensors,
        generate: Callable[[Tensors], Tensors] | None = None,
    ) -> None:
        """See ``form`` in a phase.

        Args:
            form: the network.
            phase: bounds the norms of gradients.
            moving: values that move, by name, [M, ...].
            resting: those that stand still.
            generate: values [M, ...] -> the network's state [M, ...], differentiable; None where they are the same.
        """
        self._form, self._phase, self._generate = form, phase, generate
        # a network in training state writes its running statistics in place, also those that stand still
        self._resting = {name: value.clone() if name in form.buffers else value for name, value in resting.items()}
        self.dropouts: Mapping[str, DropoutSite] = form.dropouts
        self.buffers = tuple(name for name in form.buffers if name in moving)

    def whole(self, moving: Weights) -> dict[str, Tensor]:
        """Return the network's weights and running statistics, [M, ...]."""
        values = {**self._resting, **moving}
        return dict(self._generate(values)) if self._generate else values

    @property
    def form(self) -> TrainableNetwork:
        """The network itself."""
        return self._form

    def logits(self, weights: Weights, images: Tensor, masks: Mapping[str, Tensor]) -> Tensor:
        """Return the outputs [M, classes, B]; see ``TrainableNetwork.logits``."""
        return self._form.logits(self.whole(weights), images, masks)

    def gradients(
        self, weights: Weights, batch: Batch, wanted: Collection[str] | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the losses [M] and the gradients of the moving values, their norms cut at the phase's bound."""
        names = [n for n in weights if n not in self.buffers and (wanted is None or n in wanted)]
        loss, found = self._generated(weights, batch, names) if self._generate else self._own(weights, batch, names)
        return loss, found if self._phase.bound is None else self._cut(found, self._phase.bound)

    def _own(self, weights: Weights, batch: Batch, names: list[str]) -> tuple[Tensor, dict[str, Tensor]]:
        loss, gradients = self._form.gradients(self.whole(weights), batch, names)
        return loss, {name: gradients[name] for name in names}

    def _generated(self, weights: Weights, batch: Batch, names: list[str]) -> tuple[Tensor, dict[str, Tensor]]:
        fixed = {name: value for name, value in weights.items() if name not in names}
        network, pull = vjp(lambda own: self.whole({**fixed, **own}), {name: weights[name] for name in names})[:2]
        state = {name: value.detach().clone() for name, value in network.items()}
        loss, gradients = self._form.gradients(state, batch)
        for name in self.buffers:
            weights[name].copy_(state[name])  # the network wrote them into its own copy
        at_network = {name: gradients.get(name, torch.zeros_like(value)) for name, value in network.items()}
        found: dict[str, Tensor] = pull(at_network)[0]
        return loss, found

    def _cut(self, gradients: dict[str, Tensor], bound: float) -> dict[str, Tensor]:
        groups = {name: self._phase.groups(name) for name in gradients}
        factors = {}
        for group in set(groups.values()):
            members = sorted(name for name in gradients if groups[name] == group)  # whatever the order in a checkpoint
            squares = [gradients[name].reshape(len(gradients[name]), -1).square().sum(1) for name in members]
            factors[group] = cut_factor(torch.stack(squares).sum(0), bound)
        return {
            name: value * factors[groups[name]].view(-1, *[1] * (value.dim() - 1)) for name, value in gradients.items()
        }


def cut_factor(square: Tensor, bound: float) -> Tensor:
    """Return the factor that cuts a gradient of squared norm ``square`` to the norm ``bound``; 1 where it is below."""
    return (bound / (square.sqrt() + SMALLEST_NORM)).clamp_max(1)
