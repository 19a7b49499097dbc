"""Gradients of many trials by compiled steps (``models/lanes``), for small convolutional networks on a processor.

Each sample stands in its lane of a vector, with a gradient of its own; the derivative of a function of the gradients by
the samples is a second pass in the direction of that function's derivative by the gradients (``trials.hpp``). Nothing
of what autograd does for it is left: no graph, no patches. ``layered_gradients`` is the oracle of the tests.
"""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from leaklab.models.lanes.calls import Opened, Trials, is_ours
from leaklab.models.lanes.description import Description, fits_lanes

Other = Callable[[nn.Sequential, Tensor, Tensor], list[Tensor]]
FEW = ((4_000_000, 8), (1_250_000, 2))
"""Products of a sample -> samples: of networks with more products than that, so few samples are left to products of
matrices, which are faster while most lanes of a vector are empty: ``benchmarks/attack_few.md``. Numbers for all
processors, so that the same way is taken wherever there is a compiler.
"""


def can_be_compiled(network: nn.Sequential) -> bool:
    """Whether the library knows the network behind the layers that only prepare its images."""
    values = list(network.state_dict().values())
    alike = len({value.dtype for value in values}) == 1 and all(map(is_ours, values))
    return alike and fits_lanes(_apart(network)[1])


def _apart(network: nn.Sequential) -> tuple[list[nn.Module], nn.Sequential]:
    """Return the layers before the first convolution, and the network from there on."""
    layers = list(network.named_children())
    first = next((place for place, (_, layer) in enumerate(layers) if isinstance(layer, nn.Conv2d)), len(layers))
    before = [layer for _, layer in layers[:first]]
    own = any(isinstance(value, nn.Parameter) for layer in before for value in layer.parameters())
    rest = nn.Sequential()
    for name, layer in layers if own else layers[first:]:
        rest.add_module(name, layer)
    return [] if own else before, rest


class CompiledGradients:
    """What ``gradients.layered_gradients`` returns, for a network that ``can_be_compiled``.

    Few samples of a network with many products are left to the other way, which is faster then.
    """

    def __init__(self, network: nn.Sequential, library: ctypes.CDLL, other: Other) -> None:
        """Take the network in the state in which it is attacked; ``other`` is for the rest."""
        self._other = other
        self._before, self._rest = _apart(network)
        self._opened, self._descriptions = Opened(library), dict[torch.Size, Description]()

    def __call__(self, network: nn.Sequential, inputs: Tensor, targets: Tensor) -> list[Tensor]:
        """Return one tensor [T, *parameter] per parameter; see ``gradients.layered_gradients``."""
        if not is_ours(inputs):
            return self._other(network, inputs, targets)
        trials, values = inputs.shape[:2], inputs
        for layer in self._before:
            values = layer(values.flatten(0, 1)).unflatten(0, trials)
        parameters = dict(self._rest.named_parameters())
        shape = values.shape[2:]
        if shape not in self._descriptions:
            self._descriptions[shape] = Description.of(self._rest, (shape[0], shape[1], shape[2]), dropping=False)
        description = self._descriptions[shape]
        if trials[0] * trials[1] <= next((few for many, few in FEW if description.products > many), 0):
            return self._other(network, inputs, targets)
        weights = [parameters[name].detach() for name in description.names]
        found = _OfTrials.apply(values.contiguous(), targets.contiguous(), self._opened, description, weights)
        by_name = dict(zip(description.names, found, strict=True))
        return [by_name[name] for name in parameters]


class _OfTrials(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, images: Tensor, targets: Tensor, opened: Opened, description: Description,
        weights: Sequence[Tensor],
    ) -> tuple[Tensor, ...]:  # fmt: skip
        context.save_for_backward(images, targets)
        context.trials = Trials(opened, description, weights, images)
        return tuple(context.trials.gradients(images, targets))

    @staticmethod
    @once_differentiable
    def backward(context: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        images, targets = context.saved_tensors
        return *context.trials.derivatives(images, targets, outer), None, None, None
