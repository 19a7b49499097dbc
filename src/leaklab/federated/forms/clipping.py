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
from leaklab.federated.batches import Batch
from leaklab.federated.forms.dense import DenseNetwork, affine
from leaklab.federated.forms.lanes import LanesNetwork
from leaklab.federated.forms.network import TrainableNetwork
from leaklab.federated.forms.one_by_one import OneByOne, TextNetwork
from leaklab.federated.forms.plain_cnn import PlainCnn, channels_last_images, forward
from leaklab.federated.forms.stacked import StackedNetwork
from leaklab.federated.optimizers import Weights
from leaklab.records.errors import UserError

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
    """Return one model's weighed loss and gradients by name; see ``clipped_sum``.

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


# Gradients clipped per sample: sum over a batch of min(1, C / |g_b|) g_b, over the size of the batch.

Found = tuple[Tensor, dict[str, Tensor]]


def clipped_gradients(
    network: TrainableNetwork, weights: Weights, batch: Batch, bounds: Tensor, shared: Collection[str]
) -> Found:
    """Return each model's mean loss [M] and its clipped mean gradient by name, [M, ...].

    Args:
        network: the network.
        weights: by name, [M, ...].
        batch: of G groups, M a multiple of G; samples that are not present have no part in the means.
        bounds: C of each model, [M]; infinite for none.
        shared: names of the parameters that are clipped.

    Raises:
        UserError: the samples of a batch cannot be told apart in this network.
    """
    network = _apart(network)
    together = len(bounds) // len(batch.labels)
    found = [_of_model(network, weights, batch, model, together, bounds[model], shared) for model in range(len(bounds))]
    if len(found) == 1:  # as on CPUs: no copy
        return found[0][0][None], {name: value[None] for name, value in found[0][1].items()}
    names = found[0][1]
    return torch.stack([loss for loss, _ in found]), {n: torch.stack([own[n] for _, own in found]) for n in names}


def _apart(network: TrainableNetwork) -> TrainableNetwork:
    """Return the form that has the gradient of each sample: compiled steps have sums alone."""
    if isinstance(network, LanesNetwork) and network.other is not None:
        apart: TrainableNetwork = network.other
        return apart
    return network


def _of_model(
    network: TrainableNetwork,
    weights: Weights,
    batch: Batch,
    model: int,
    together: int,
    bound: Tensor,
    shared: Collection[str],
) -> Found:
    group = model // together
    own = {name: value[model] for name, value in weights.items()}
    images, labels = batch.images[group], batch.labels[group]
    present = torch.ones_like(bound).expand(len(labels)) if batch.present is None else batch.present[group]
    plain = present / batch.size
    if isinstance(network, PlainCnn) and has_formulas(network):
        return clipped_cnn_gradient(network, own, images, labels, bound, plain, shared)
    masks = {name: mask[group] for name, mask in batch.masks.items()}
    losses, gradients = sample_gradients(network, own, images, labels, masks)
    return losses @ plain, clipped_sum(gradients, bound, plain, shared)


def sample_gradients(
    network: TrainableNetwork,
    weights: Mapping[str, Tensor],
    images: Tensor,
    labels: Tensor,
    masks: Mapping[str, Tensor],
) -> Found:
    """Return one model's losses [B] and gradients by name, [B, ...], of each sample.

    Args:
        network: the network.
        weights: of the model, by name.
        images: [B, C, H, W].
        labels: [B].
        masks: by dropout layer, [B, ...].

    Raises:
        UserError: the samples of a batch cannot be told apart in this network.
    """
    network = _apart(network)
    if isinstance(network, OneByOne | TextNetwork):
        return network.sample_gradients(weights, images, labels)
    if isinstance(network, StackedNetwork | DenseNetwork):
        # each sample is a model with a batch of its own
        many = {name: value.expand(len(labels), *value.shape) for name, value in weights.items()}
        alone = Batch(images[:, None], labels[:, None], {name: mask[:, None] for name, mask in masks.items()})
        return network.gradients(many, alone)
    raise UserError("gradients cannot be clipped per sample in this network: use a defense without sample_bound")


def clipped_sum(
    gradients: Mapping[str, Tensor], bound: Tensor, plain: Tensor, shared: Collection[str]
) -> dict[str, Tensor]:
    """Return the weighed sum over samples of gradients [B, ...], the shared ones shortened to a common norm.

    Args:
        gradients: of each sample, by name.
        bound: C, a scalar.
        plain: weight of each sample, [B].
        shared: names that are clipped.
    """
    squares = [gradients[name].flatten(1).square().sum(1) for name in gradients if name in shared]
    factors = plain * (bound / torch.stack(squares).sum(0).sqrt()).clamp(max=1) if squares else plain
    return {name: torch.tensordot(factors if name in shared else plain, value, 1) for name, value in gradients.items()}
