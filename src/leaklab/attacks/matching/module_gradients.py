"""Inner products and norms of the gradients of many trials in a deep network, without the gradients themselves.

The weights are shared, so all samples of all trials run through the network as one ordinary batch. A trial's gradient
in an affine layer is ``dL/dW = D U^T``: U are the patches that the kernel sees, D the derivatives at the layer's
output, both with the positions of all samples of the trial side by side. For a matching loss like the cosine only
``<g, t>`` and ``|g|^2`` are asked for, and both follow from U and D (T stands for t as a matrix)::

    <g, t>  = <D, T U>                 |g|^2 = sum of (U^T U) * (D^T D)

The second form compares positions and not weights: in the deep layers of a residual network a few positions stand
against millions of weights. Where positions are many, D U^T is formed after all, by a convolution whose groups are the
trials. Each layer takes the cheaper way.

What it costs: ``1 - cos`` from these products is a difference of ones and has a floor of a few roundings (see
``cosine_inversion``). Where gradients have to match closer, form them (``gradients``).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.nn.grad import conv2d_input, conv2d_weight
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from leaklab.attacks.matching.gradients import samples_side_by_side, soft_cross_entropy
from leaklab.records.errors import UserError

_Pair = tuple[int, int]
_Geometry = tuple[_Pair, _Pair, _Pair]
"""Stride, padding and dilation of a convolution."""


def reason_against(network: nn.Module) -> str | None:
    """Return why ``gradient_products`` cannot work for this network; None where it can."""
    for name, layer in network.named_modules():
        if isinstance(layer, _BatchNorm) and (layer.training or layer.running_mean is None):
            return f"layer '{name}' normalises by the batch, which ties the trials to each other"
        if isinstance(layer, _DropoutNd) and layer.training and layer.p > 0:
            return f"layer '{name}' drops at random"
        if next(layer.parameters(recurse=False), None) is not None and not _is_known(layer):
            return f"layer '{name}' is a {type(layer).__name__} that has no formula here"
    everyone = [parameter for layer in _layers(network) for parameter in layer.parameters(recurse=False)]
    if len({id(parameter) for parameter in everyone}) < len(everyone):
        return "layers share a parameter"
    return None


def gradient_products(
    network: nn.Module, inputs: Tensor, targets: Tensor, against: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """Return <g_i, t_i> and |g_i|^2 over all parameters for the gradient g_i of each trial's mean cross-entropy.

    Both can be differentiated once more, for inputs and targets.

    Args:
        network: parametric layers are Conv2d (one group), Linear and BatchNorm2d in evaluation state, each called
            once, in blocks of any kind.
        inputs: [T, B, C, H, W].
        targets: class probabilities [T, B, K].
        against: t, one [T, *parameter] per parameter, in the network's order.

    Returns:
        [T] and [T].

    Raises:
        UserError: the network has other layers, or uses its layers in another way.
    """
    reason = reason_against(network)
    if reason is not None:
        raise UserError(f"no products of gradients for this network: {reason}")
    trials, batch = inputs.shape[:2]
    inputs = inputs if inputs.requires_grad else inputs.detach().requires_grad_()
    with torch.enable_grad():
        with _watched(network) as passes:
            logits = network(inputs.flatten(0, 1))
        _check(passes, network, trials * batch)
        total = soft_cross_entropy(logits, targets.flatten(0, 1)).sum() / batch
        deltas = torch.autograd.grad(total, [seen.output for seen in passes], create_graph=True)
        names = {id(parameter): number for number, parameter in enumerate(network.parameters())}
        inner, norm = total.new_zeros(trials), total.new_zeros(trials)
        for seen, delta in zip(passes, deltas, strict=True):
            of_weight, of_bias = (
                None if id(parameter) not in names else against[names[id(parameter)]]
                for parameter in (seen.layer.weight, seen.layer.bias)
            )
            for product, square in _products(seen, delta, trials, of_weight, of_bias):
                inner, norm = inner + product, norm + square
    return inner, norm


@dataclass
class _Pass:
    """One layer in one forward pass: what went in and what came out; ``version`` counts changes of the former."""

    layer: nn.Conv2d | nn.Linear | nn.BatchNorm2d
    values: Tensor
    version: int
    output: Tensor


@contextmanager
def _watched(network: nn.Module) -> Iterator[list[_Pass]]:
    """Collect the passes of all parametric layers; the hooks are removed again whatever happens."""
    passes: list[_Pass] = []

    def remember(layer: Any, arguments: tuple[Tensor, ...], output: Tensor) -> Tensor:
        values = arguments[0]
        passes.append(_Pass(layer, values, values._version, output))
        # blocks change what they get in place (+=, ReLU); the output that the derivative is taken for must not
        return output.clone()

    handles = [layer.register_forward_hook(remember) for layer in _layers(network)]
    try:
        yield passes
    finally:
        for handle in handles:
            handle.remove()


def _check(passes: list[_Pass], network: nn.Module, samples: int) -> None:
    if {id(seen.layer) for seen in passes} != {id(layer) for layer in _layers(network)}:
        raise UserError("no products of gradients for this network: a layer is never called")
    if len(passes) > len(_layers(network)):
        raise UserError("no products of gradients for this network: a layer is called more than once")
    if any(len(seen.values) != samples for seen in passes):
        raise UserError("no products of gradients for this network: a layer does not see one row per sample")
    if any(seen.values._version != seen.version for seen in passes):
        raise UserError("no products of gradients for this network: a layer's input is changed in place afterwards")


def _products(
    seen: _Pass, delta: Tensor, trials: int, of_weight: Tensor | None, of_bias: Tensor | None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield <g, t> [T] and |g|^2 [T] of each parameter of a layer; ``delta`` has the shape of its output."""
    if isinstance(seen.layer, nn.BatchNorm2d):
        if of_weight is not None:
            yield _plain_products((delta * _normalised(seen.layer, seen.values)).sum((2, 3)), of_weight)
        if of_bias is not None:
            yield _plain_products(delta.sum((2, 3)), of_bias)
        return
    delta, values = (_as_image(seen.layer, value) for value in (delta, seen.values))
    if of_weight is not None:
        yield _weight_products(_geometry(seen.layer), delta, values, of_weight)
    if of_bias is not None:
        yield _plain_products(delta.sum((2, 3)), of_bias)


def _weight_products(geometry: _Geometry, delta: Tensor, values: Tensor, against: Tensor) -> tuple[Tensor, Tensor]:
    """Return the products for the weight of an affine layer: delta [T*B, O, h, w], values [T*B, C, H, W]."""
    trials, kernel = len(against), against.shape[3:] if against.dim() == 5 else (1, 1)
    against = against.view(*against.shape[:2], -1, *kernel)
    positions = delta[0, 0].numel() * len(delta) // trials
    products: tuple[Tensor, Tensor]
    if not _ghost_is_cheaper(against.shape[1], against[0, 0].numel(), positions):
        products = _FormedProducts.apply(delta, values, against, geometry)
        return products
    stride, padding, dilation = geometry
    patches = F.unfold(values, kernel, dilation, padding, stride)
    sides = [samples_side_by_side(value, trials) for value in (delta.flatten(2), patches)]
    products = _GhostProducts.apply(*sides, against.flatten(2))
    return products


def _plain_products(gradients: Tensor, against: Tensor) -> tuple[Tensor, Tensor]:
    """Return the products of the gradients of a vector; ``gradients`` [T*B, C] or [T, C]."""
    gradient = gradients.view(len(against), -1, gradients.shape[1]).sum(1)
    return (gradient * against).sum(1), (gradient * gradient).sum(1)


class _GhostProducts(torch.autograd.Function):
    """D [T, O, Q], U [T, K, Q], T [T, O, K] -> <D, T U> and sum (U^T U) * (D^T D), both [T]."""

    @staticmethod
    def forward(context: Any, derivatives: Tensor, patches: Tensor, against: Tensor) -> tuple[Tensor, Tensor]:
        answer = torch.bmm(against, patches)
        of_patches = torch.bmm(patches.transpose(1, 2), patches)
        of_derivatives = torch.bmm(derivatives.transpose(1, 2), derivatives)
        context.save_for_backward(derivatives, patches, against, answer, of_patches, of_derivatives)
        return (derivatives * answer).sum((1, 2)), (of_patches * of_derivatives).sum((1, 2))

    @staticmethod
    @once_differentiable
    def backward(context: Any, inner: Tensor, norm: Tensor) -> tuple[Tensor, Tensor, None]:
        derivatives, patches, against, answer, of_patches, of_derivatives = context.saved_tensors
        product, square = inner[:, None, None], 2 * norm[:, None, None]
        to_derivatives = torch.baddbmm(product * answer, derivatives, square * of_patches)
        to_patches = torch.bmm(against.transpose(1, 2), product * derivatives)
        return to_derivatives, to_patches.baddbmm_(patches, square * of_derivatives), None


class _FormedProducts(torch.autograd.Function):
    """The same from the gradient of a convolution itself: the trials are groups of one wide convolution.

    derivatives [T*B, O, h, w], values [T*B, C, H, W], against [T, O, C, kh, kw]; an affine layer is a kernel of 1x1.
    """

    @staticmethod
    def forward(
        context: Any, derivatives: Tensor, values: Tensor, against: Tensor, geometry: _Geometry
    ) -> tuple[Tensor, Tensor]:
        trials, kernel = len(against), (against.shape[0] * against.shape[1], *against.shape[2:])
        outer, inputs = _channels_side_by_side(derivatives, trials), _channels_side_by_side(values, trials)
        gradient = conv2d_weight(inputs, kernel, outer, *geometry, trials).view_as(against)  # type: ignore[no-untyped-call]
        context.save_for_backward(outer, inputs, against, gradient)
        context.geometry = geometry
        return (gradient * against).flatten(1).sum(1), (gradient * gradient).flatten(1).sum(1)

    @staticmethod
    @once_differentiable
    def backward(context: Any, inner: Tensor, norm: Tensor) -> tuple[Tensor, Tensor, None, None]:
        derivatives, values, against, gradient = context.saved_tensors
        trials, ones = len(against), (1,) * 4
        kernel = torch.addcmul(inner.view(-1, *ones) * against, 2 * norm.view(-1, *ones), gradient).flatten(0, 1)
        stride, padding, dilation = context.geometry
        to_derivatives = F.conv2d(values, kernel, None, stride, padding, dilation, trials)
        to_values = conv2d_input(values.shape, kernel, derivatives, stride, padding, dilation, trials)  # type: ignore[no-untyped-call]
        return _samples_again(to_derivatives, trials), _samples_again(to_values, trials), None, None


def _channels_side_by_side(values: Tensor, trials: int) -> Tensor:
    """Return [T*B, C, H, W] as [B, T*C, H, W]."""
    return values.view(trials, -1, *values.shape[1:]).transpose(0, 1).flatten(1, 2)


def _samples_again(values: Tensor, trials: int) -> Tensor:
    """Return [B, T*C, H, W] as [T*B, C, H, W]."""
    return values.view(len(values), trials, -1, *values.shape[2:]).transpose(0, 1).flatten(0, 1)


def _ghost_is_cheaper(outputs: int, inputs: int, positions: int) -> bool:
    """Compare the multiplications of both ways, forward and backward.

    With O outputs, K inputs and Q positions the formed gradient takes 3 O K Q, the ghost 2 O K Q + 2 Q Q (O + K).
    """
    return 2 * positions * (outputs + inputs) < outputs * inputs


def _normalised(layer: nn.BatchNorm2d, values: Tensor) -> Tensor:
    """Return what the weight of a batch normalisation in evaluation state is multiplied with."""
    assert layer.running_mean is not None
    assert layer.running_var is not None
    mean, rate = layer.running_mean, torch.rsqrt(layer.running_var + layer.eps)
    return (values - mean[:, None, None]) * rate[:, None, None]


def _as_image(layer: nn.Conv2d | nn.Linear, values: Tensor) -> Tensor:
    """Return what goes in or out of an affine layer as [N, C, H, W]; [N, ..., C] of a linear layer as [N, C, P, 1]."""
    if isinstance(layer, nn.Conv2d):
        return values
    return values.reshape(len(values), -1, values.shape[-1]).transpose(1, 2).unsqueeze(3)


def _geometry(layer: nn.Conv2d | nn.Linear) -> _Geometry:
    if isinstance(layer, nn.Linear):
        return (1, 1), (0, 0), (1, 1)
    stride, padding, dilation = ((int(pair[0]), int(pair[1])) for pair in (layer.stride, layer.padding, layer.dilation))
    return stride, padding, dilation


def _layers(network: nn.Module) -> list[Any]:
    return [layer for layer in network.modules() if next(layer.parameters(recurse=False), None) is not None]


def _is_known(layer: nn.Module) -> bool:
    # a subclass may compute something else
    if isinstance(layer, nn.Conv2d) and type(layer) is nn.Conv2d:
        return layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    return type(layer) in (nn.Linear, nn.BatchNorm2d)
