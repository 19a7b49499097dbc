"""How often each class occurs in a batch, equal labels included, from the gradient of the head's bias.

For cross-entropy that gradient is d = s (p - n / B): s is the factor on the update, p the mean prediction and n the
number of samples of each class. Predictions hardly depend on the images in an untrained network: that of public
images, or of noise, stands for the batch's.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

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
