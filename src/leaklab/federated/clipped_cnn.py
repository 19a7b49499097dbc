"""Clipping per sample in plain convolutional networks, written out: one backward pass for all samples' slopes.

An affine layer's gradient of sample b is delta_b x_b^T, so its squared norm is |delta_b|^2 |x_b|^2 and the clipped sum
one product with scaled slopes: no sample's gradient is ever formed. A convolution's kernels are small, so each sample's
gradient is formed from patches, in one batched product, and gives the norm and the sum.
"""

from collections.abc import Callable, Collection, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.defenses.per_sample import patches
from leaklab.federated.affine import affine
from leaklab.federated.plain_cnn import PlainCnn, channels_last_images, forward

Sums = Callable[[Tensor], dict[str, Tensor]]
"""Weights of the samples [B] -> the weighed sum of their gradients in a layer, by ``weight`` and ``bias``."""


def has_formulas(network: PlainCnn) -> bool:
    """Whether all convolutions are plain ones; others are lifted over the samples."""
    return all(layer.groups == 1 for _, layer in network.layers if isinstance(layer, nn.Conv2d))


@torch.no_grad()
def clipped_cnn_gradient(
    network: PlainCnn,
    weights: Mapping[str, Tensor],
    images: Tensor,
    labels: Tensor,
    bound: Tensor,
    plain: Tensor,
    shared: Collection[str],
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return one model's weighed loss and gradients by name; see ``sample_clipping.clipped_sum``.

    Args:
        network: for which ``has_formulas`` holds.
        weights: of the model, by name.
        images: [B, C, H, W].
        labels: [B].
        bound: C, a scalar.
        plain: weight of each sample, [B].
        shared: names that are clipped.
    """
    values, tape = channels_last_images(images), []
    for name, layer in network.layers:
        inside = values
        values, back = forward(name, layer, weights, values)
        tape.append((name, layer, inside, back))
    logs = torch.log_softmax(values, 1)
    losses = F.nll_loss(logs, labels, reduction="none")
    delta = logs.exp_()
    delta[torch.arange(len(labels), device=labels.device), labels] -= 1
    squares, parts = torch.zeros_like(plain), []
    for index in range(len(tape) - 1, -1, -1):
        name, layer, inside, back = tape[index]
        if not isinstance(layer, nn.Linear | nn.Conv2d):
            inner = back(delta, True)[0]
            assert inner is not None
            delta = inner
            continue
        clipped = [kind for kind in ("weight", "bias") if f"{name}.{kind}" in shared]
        own, sums = (_affine if isinstance(layer, nn.Linear) else _convolution)(layer, inside, delta)
        for kind in clipped:
            squares += own[kind]
        parts.append((name, sums))
        if index:
            delta = _inside(layer, weights[f"{name}.weight"], inside, delta)
    return losses @ plain, _summed(parts, plain, squares, bound, shared, weights)


def _summed(
    parts: list[tuple[str, Sums]],
    plain: Tensor,
    squares: Tensor,
    bound: Tensor,
    shared: Collection[str],
    weights: Mapping[str, Tensor],
) -> dict[str, Tensor]:
    factors = plain * (bound / squares.sqrt()).clamp(max=1)
    found: dict[str, Tensor] = {}
    for name, sums in parts:
        names = [f"{name}.{kind}" for kind in ("weight", "bias") if f"{name}.{kind}" in weights]
        clipped = {own: own in shared for own in names}
        for weighed in dict.fromkeys(clipped.values()):
            of_layer = sums(factors if weighed else plain)
            found |= {own: of_layer[own.rpartition(".")[2]] for own in names if clipped[own] is weighed}
    return {name: found[name] for name in weights}


def _affine(layer: nn.Module, inside: Tensor, delta: Tensor) -> tuple[dict[str, Tensor], Sums]:
    """Return the squared norms of each sample's gradients, [B], and their sums."""
    slopes = delta.square().sum(1)

    def sums(factors: Tensor) -> dict[str, Tensor]:
        weighed = delta * factors[:, None]
        return {"weight": affine(weighed.T.contiguous(), inside.T, None), "bias": weighed.sum(0)}

    return {"weight": slopes * inside.square().sum(1), "bias": slopes}, sums


def _convolution(layer: nn.Module, inside: Tensor, delta: Tensor) -> tuple[dict[str, Tensor], Sums]:
    """Return the squared norms of each sample's gradients, [B], and their sums."""
    assert isinstance(layer, nn.Conv2d)
    slopes = delta.permute(0, 2, 3, 1).flatten(1, 2)
    kernels = torch.bmm(slopes.transpose(1, 2), patches(layer, inside, delta)).flatten(1)
    biases, (high, wide) = slopes.sum(1), layer.kernel_size

    def sums(factors: Tensor) -> dict[str, Tensor]:
        weighed = (factors @ kernels).view(layer.out_channels, high, wide, -1)
        return {"weight": weighed.permute(0, 3, 1, 2).contiguous(), "bias": factors @ biases}

    return {"weight": torch.linalg.vecdot(kernels, kernels), "bias": biases.square().sum(1)}, sums


def _inside(layer: nn.Module, weight: Tensor, inside: Tensor, delta: Tensor) -> Tensor:
    """Return the derivatives at a layer's input."""
    if isinstance(layer, nn.Linear):
        return affine(delta, weight.T, None)
    assert isinstance(layer, nn.Conv2d)
    assert not isinstance(layer.padding, str)
    geometry = [list(pair) for pair in (layer.stride, layer.padding, layer.dilation)]
    wanted = [True, False, False]
    at_input: Tensor = torch.ops.aten.convolution_backward(
        delta, inside, weight, None, *geometry, False, [0, 0], layer.groups, wanted
    )[0]
    return at_input
