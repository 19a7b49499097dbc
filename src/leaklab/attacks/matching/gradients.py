"""Gradients of many trials at once: one network, one gradient per trial.

The weights are shared by all trials, so the trials run through the network as one ordinary batch; what belongs to one
trial is only the product of a layer's input with the derivative at its output: ``dL/dW = delta U^T``, where ``U`` are
the patches that the layer's kernel sees. The products are formed and not expanded into ``|g|^2``: near convergence a
difference of large numbers would lose what the attack is looking for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

from leaklab.attacks.matching.compiled import CompiledGradients, can_be_compiled
from leaklab.models.lanes.library import library

TrialGradients = Callable[[nn.Sequential, Tensor, Tensor], list[Tensor]]


def trial_gradients(network: nn.Sequential) -> TrialGradients:
    """Return the fastest exact way for this network: compiled, ``layered_gradients`` or ``general_gradients``."""
    with_weights = [layer for layer in network if next(layer.parameters(), None) is not None]
    fixed = any(hasattr(layer, "weight") and not isinstance(layer.weight, nn.Parameter) for layer in network)
    plain = not fixed and all(_is_plain(layer) for layer in with_weights)
    if not plain:
        return general_gradients
    if can_be_compiled(network) and (compiled := library()) is not None:
        return CompiledGradients(network, compiled, layered_gradients)
    return layered_gradients


def soft_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return -sum_k p_k log softmax(logits)_k over the last dimension; a hard label is a one-hot ``targets``."""
    return -(targets * torch.log_softmax(logits, -1)).sum(-1)


def layered_gradients(network: nn.Sequential, inputs: Tensor, targets: Tensor) -> list[Tensor]:
    """Return the gradient of each trial's mean cross-entropy, once differentiable for inputs and targets.

    Args:
        network: its layers with weights are plain convolutions and linear layers.
        inputs: [T, B, C, H, W].
        targets: class probabilities [T, B, K].

    Returns:
        One tensor [T, *parameter] per parameter, in the network's order.
    """
    trials, batch = inputs.shape[:2]
    passes, logits = _forward(network, inputs.flatten(0, 1))
    total = soft_cross_entropy(logits, targets.flatten(0, 1)).sum() / batch
    deltas = torch.autograd.grad(total, [layer.output for layer in passes], create_graph=True)
    gradients = []
    for affine, delta in zip(passes, deltas, strict=True):
        by_trial, patches = (samples_side_by_side(value, trials) for value in (delta, affine.patches))
        weight: Tensor = _WeightGradient.apply(by_trial, patches)
        gradients.append(weight.view(trials, *affine.layer.weight.shape))
        if affine.layer.bias is not None:
            gradients.append(by_trial.sum(2))
    return gradients


def general_gradients(network: nn.Sequential, inputs: Tensor, targets: Tensor) -> list[Tensor]:
    """Return the same as ``layered_gradients`` for any network that ``torch.func`` can map; slower."""
    parameters: dict[str, Tensor] = dict(network.named_parameters())

    def loss(current: dict[str, Tensor], one_input: Tensor, one_target: Tensor) -> Tensor:
        return soft_cross_entropy(functional_call(network, current, (one_input,)), one_target).mean()

    return list(vmap(grad(loss), in_dims=(None, 0, 0))(parameters, inputs, targets).values())


@dataclass(frozen=True)
class _Affine:
    """An affine layer in one pass: the patches U [T*B, K, P] that it saw and its output [T*B, O, P]."""

    layer: nn.Conv2d | nn.Linear
    patches: Tensor
    output: Tensor


class _WeightGradient(torch.autograd.Function):
    """delta [T, O, P], patches U [T, K, P] -> delta U^T [T, O, K], with the fast operand orders in both directions.

    Written out because autograd's own choice for ``bmm`` is up to ten times slower for a single position (an affine
    layer and one sample).
    """

    @staticmethod
    def forward(context: Any, delta: Tensor, patches: Tensor) -> Tensor:
        context.save_for_backward(delta, patches)
        rows = patches.transpose(1, 2)
        return delta * rows if delta.shape[2] == 1 else torch.bmm(delta, rows)

    @staticmethod
    @once_differentiable
    def backward(context: Any, outer: Tensor) -> tuple[Tensor, Tensor]:
        delta, patches = context.saved_tensors
        return torch.bmm(outer, patches), torch.bmm(delta.transpose(1, 2), outer).transpose(1, 2)


def _forward(network: nn.Sequential, values: Tensor) -> tuple[list[_Affine], Tensor]:
    passes = []
    for layer in network:
        if isinstance(layer, nn.Conv2d):
            padding = int(layer.padding[0]), int(layer.padding[1])
            size = _output_size(layer, values)
            # the patches are needed for the weight gradient anyway: the convolution is their product with the kernel
            patches = F.unfold(values, layer.kernel_size, padding=padding, stride=layer.stride)
            output = layer.weight.flatten(1) @ patches
            if layer.bias is not None:
                output = output + layer.bias[:, None]
            passes.append(_Affine(layer, patches, output))
            values = output.view(*output.shape[:2], *size)
        elif isinstance(layer, nn.Linear):
            output = F.linear(values, layer.weight, layer.bias).unsqueeze(2)
            passes.append(_Affine(layer, values.unsqueeze(2), output))
            values = output.squeeze(2)
        else:
            values = layer(values)
    return passes, values


def samples_side_by_side(values: Tensor, trials: int) -> Tensor:
    """Return [T*B, K, P] as [T, K, B*P]: the samples of a trial are further positions of the same kernel."""
    if len(values) == trials:
        return values
    return values.view(trials, -1, *values.shape[1:]).transpose(1, 2).flatten(2)


def _output_size(layer: nn.Conv2d, values: Tensor) -> tuple[int, int]:
    height, width = (
        (values.shape[2 + axis] + 2 * int(layer.padding[axis]) - layer.kernel_size[axis]) // layer.stride[axis] + 1
        for axis in range(2)
    )
    return height, width


def _is_plain(layer: nn.Module) -> bool:
    if isinstance(layer, nn.Conv2d):
        plain = layer.groups == 1 and layer.dilation == (1, 1) and layer.padding_mode == "zeros"
        return plain and not isinstance(layer.padding, str)
    return isinstance(layer, nn.Linear)
