"""The last affine layer of a victim: it gives away labels, features and factors.

Of a batch it tells how often each class occurs, equal labels included: for cross-entropy the gradient of the head's
bias is d = s (p - n / B). s is the factor on the update, p the mean prediction and n the number of samples of each
class. Predictions hardly depend on the images in an untrained network: that of public images, or of noise, stands for
the batch's.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.models.generators.base import Generator
from leaklab.observations.base import Knowledge, Observation
from leaklab.records import tensor_algebra
from leaklab.records.errors import UserError
from leaklab.records.streams import stream


@dataclass(frozen=True)
class Head:
    """The last affine layer of the victim and its observed update.

    Attributes:
        weight: [K, F].
        bias: [K].
        weight_update: [T, K, F], in the sign of a gradient.
        bias_update: [T, K], likewise.
    """

    weight: Tensor
    bias: Tensor
    weight_update: Tensor
    bias_update: Tensor


def head(observation: Observation) -> Head:
    """Return the last layer of the observed model.

    Raises:
        UserError: the model does not end in an affine layer with a bias.
    """
    names = list(observation.weights)
    prefix = names[-1].removesuffix("bias")
    weight, bias = f"{prefix}weight", f"{prefix}bias"
    if names[-2:] != [weight, bias] or observation.weights[weight].dim() != 2:
        raise UserError("the model does not end in an affine layer with a bias: choose another attack or model")
    if not {weight, bias} <= set(observation.update):
        raise UserError("the client keeps its last layer to itself, so no label can be read off: use label_rule: known")
    gradient = observation.as_direction().update
    return Head(observation.weights[weight], observation.weights[bias], gradient[weight], gradient[bias])


# The input of an affine layer, read off its gradients.


def layer_input(weight_update: Tensor, bias_update: Tensor) -> Tensor:
    """Return x = sum_j db_j dW_j / sum_j db_j^2 of each trial: [T, I].

    Exact where one sample alone made these gradients; not finite where all bias gradients are zero.

    Args:
        weight_update: [T, O, I], up to a factor.
        bias_update: [T, O], up to the same factor.
    """
    return torch.einsum("to,toi->ti", bias_update, weight_update) / bias_update.square().sum(1, keepdim=True)


# Images of noise, by which an attacker without public images measures what a network predicts.

NOISE_IMAGES = 300


def noise_images(observation: Observation, knowledge: Knowledge, attack: str) -> Tensor:
    """Return images [N, C, H, W] of uniform noise, as the victim takes them, always the same."""
    low, high = knowledge.require("input_range", attack)
    shape = NOISE_IMAGES, *knowledge.require("input_shape", attack)
    drawn = stream(0, "noise images").uniform(*shape).to(next(iter(observation.update.values())))
    images: Tensor = low + (high - low) * drawn
    return images


# Features before the last affine layer: of public images, and of the one sample behind an update.

TOGETHER = 250
"""Images whose features are computed at once: a memory knob only."""


def public_images(generator: Generator, needed_by: str) -> tuple[Tensor, Tensor]:
    """Return the images that a generator keeps, [N, C, H, W] on the [0, 1] scale, and their labels [N].

    Raises:
        UserError: it keeps none.
    """
    public = getattr(generator, "public", None)
    if public is None:
        raise UserError(
            f"{needed_by} looks among public images: choose the generator class-gaussian with kept, say, 100"
        )
    like = next(generator.parameters())
    labels = torch.arange(len(public), device=like.device).repeat_interleave(public.shape[1])
    return public.to(like).view(-1, *generator.image_shape) / 255, labels


def features_of(network: nn.Sequential, inputs: Tensor) -> Tensor:
    """Return what comes before the last layer for inputs [N, C, H, W], [N, F]."""
    with torch.no_grad():
        return torch.cat([network[:-1](some).flatten(1) for some in torch.split(inputs, TOGETHER)])


def apart(first: Tensor, second: Tensor) -> Tensor:
    """Return the distances of features [N, F] and [M, F], [N, M]; by differences, as near ones are the point."""
    found: Tensor = torch.cdist(first, second, compute_mode="donot_use_mm_for_euclid_dist")
    return found


def head_features(observation: Observation) -> Tensor:
    """Return the features of one sample's update as the head tells them, [T, F]; see the module.

    Raises:
        UserError: the model does not end in an affine layer with a bias, or the client keeps it.
    """
    last = head(observation)
    rows = torch.cat([last.weight_update, last.bias_update[:, :, None]], 2)
    direction = tensor_algebra.svd(F.normalize(rows.flatten(1)).view_as(rows))[2][:, 0]
    found: Tensor = direction[:, :-1] / direction[:, -1:]
    return found


SCALES = 1000
"""Factors that are tried where the scale is unknown; a count moves by at most B / SCALES from one to the next."""


@dataclass(frozen=True)
class Counted:
    """One reading of a trial's bias gradient.

    Attributes:
        labels: [B], ascending.
        scale: the factor s on the update that goes with them.
        misfit: 1 - cos^2 of the gradient and p - n / B: 0 for a perfect reading.
    """

    labels: Tensor
    scale: float
    misfit: float


def mean_prediction(network: nn.Module, images: Tensor) -> Tensor:
    """Return the mean class probabilities [K] of images [N, C, H, W], as the victim takes them."""
    with torch.no_grad():
        return torch.softmax(network(images), 1).mean(0)


def counted_labels(bias_update: Tensor, prediction: Tensor, batch: int) -> Tensor:
    """Return labels [T, B], ascending, whose shares are nearest to prediction less bias gradient.

    Args:
        bias_update: gradient of the head's bias, [T, K], at its true scale.
        prediction: mean class probabilities [K] of public images.
        batch: B; the shares times B are rounded so that they sum to it, the largest remainder first.
    """
    missing = batch * (prediction - bias_update)
    rows, labels = torch.arange(len(missing), device=missing.device), []
    for _ in range(batch):
        labels.append(missing.argmax(1))
        missing[rows, labels[-1]] -= 1
    return torch.stack(labels, 1).sort(1).values


def counted_at_any_scale(bias_update: Tensor, prediction: Tensor, batch: int) -> list[Counted]:
    """Return all readings of a bias gradient [K] with an unknown factor, the best first.

    Where one class takes all of the prediction, several fit equally well: of three batches of four, (1, 2, 0, 0) and
    (1, 1, 2, 2) differ in scale only if class 0 is predicted for every image.

    Args:
        bias_update: [K], in the sign of a gradient.
        prediction: as in ``counted_labels``.
        batch: B.
    """
    # no entry of p - n / B exceeds 1; a gradient of zero has no factor
    largest = bias_update.abs().max().clamp(min=torch.finfo(bias_update.dtype).tiny)
    inverse = torch.linspace(0, 1, SCALES + 1).to(bias_update) / largest
    labels = torch.unique(counted_labels(inverse[:, None] * bias_update, prediction, batch), dim=0)
    return sorted((reading(one, bias_update, prediction) for one in labels), key=lambda found: found.misfit)


def reading(labels: Tensor, bias_update: Tensor, prediction: Tensor) -> Counted:
    """Return what labels [B] make of a bias gradient [K]; the scale is NaN where they explain nothing of it."""
    expected = prediction - torch.bincount(labels, minlength=len(prediction)).to(prediction) / len(labels)
    product, norm = bias_update @ expected, expected @ expected
    if not product > 0:
        return Counted(labels, float("nan"), 1.0)
    scale = product / norm
    return Counted(labels, float(scale), float(1 - product * scale / (bias_update @ bias_update)))
