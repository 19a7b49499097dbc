"""Features before the last affine layer: of public images, and of the one sample behind an update.

With derivatives d at the outputs and features h before the layer, its gradients are d h^T and d: a matrix of rank one,
whose row space holds (h, 1). So h is its right singular vector, which under equal noise on all entries is the best one
(total least squares), and any factor that a client hides cancels.

Source: the quotient is that of "Inverting Gradients", proposition 3.1, on the last layer.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.attacks.head import head
from leaklab.models.generators.base import Generator
from leaklab.observations.base import Observation
from leaklab.records.errors import UserError

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
    direction = torch.linalg.svd(F.normalize(rows.flatten(1)).view_as(rows), full_matrices=False)[2][:, 0]
    found: Tensor = direction[:, :-1] / direction[:, -1:]
    return found
