"""Gradients clipped per sample: sum over a batch of min(1, C / |g_b|) g_b, over the size of the batch.

Source: "Deep Learning with Differential Privacy" (DP-SGD, algorithm 1), before its noise. What is shared is clipped by
one norm over all shared parameters; the others get their plain mean gradient.
"""

from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from leaklab.federated.batches import Batch
from leaklab.federated.clipped_cnn import clipped_cnn_gradient, has_formulas
from leaklab.federated.dense import DenseNetwork
from leaklab.federated.network import TrainableNetwork
from leaklab.federated.one_by_one import OneByOne
from leaklab.federated.optimizers.base import Weights
from leaklab.federated.plain_cnn import PlainCnn
from leaklab.federated.stacked import StackedNetwork
from leaklab.records.errors import UserError

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
    together = len(bounds) // len(batch.labels)
    found = [_of_model(network, weights, batch, model, together, bounds[model], shared) for model in range(len(bounds))]
    if len(found) == 1:  # as on CPUs: no copy
        return found[0][0][None], {name: value[None] for name, value in found[0][1].items()}
    names = found[0][1]
    return torch.stack([loss for loss, _ in found]), {n: torch.stack([own[n] for _, own in found]) for n in names}


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
    if isinstance(network, OneByOne):
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
